-- recall_answer returns the answer to an earlier call with this key, if there is one. Otherwise it reserves the key
-- until the end of the transaction, and other calls with the key wait for that. Locks: the row of the key. Uses
-- idempotent_answer_pkey.
create or replace function penstock.recall_answer(actor text, idempotency_key text, asked bytea)
returns table (fingerprint bytea, status smallint, body bytea)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  insert into penstock.idempotent_answer as a (actor, idempotency_key, fingerprint, status, body)
  values (recall_answer.actor, recall_answer.idempotency_key, recall_answer.asked, 0, '')
  on conflict (actor, idempotency_key) do nothing;
  if not found then
    return query select a.fingerprint, a.status, a.body from penstock.idempotent_answer a
    where a.actor = recall_answer.actor and a.idempotency_key = recall_answer.idempotency_key;
  end if;
end $$;

-- Stores the answer of the call that has reserved the key. Locks: the row of the key. Uses idempotent_answer_pkey.
create or replace function penstock.keep_answer(actor text, idempotency_key text, status smallint, body bytea)
returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.idempotent_answer a set status = keep_answer.status, body = keep_answer.body
  where a.actor = keep_answer.actor and a.idempotency_key = keep_answer.idempotency_key;
$$;
