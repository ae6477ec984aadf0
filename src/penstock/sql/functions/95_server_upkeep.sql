-- What the HTTP server remembers for a while, and the delete reaper.

-- The answer to an earlier call with this key, if there was one; else the key is taken, until the end of the
-- transaction, which another call with it waits for.
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

create or replace function penstock.keep_answer(actor text, idempotency_key text, status smallint, body bytea) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.idempotent_answer a set status = keep_answer.status, body = keep_answer.body
  where a.actor = keep_answer.actor and a.idempotency_key = keep_answer.idempotency_key;
$$;

-- Deletes expired messages from the history for good. How many. Scans the history; locks only the rows it deletes, and
-- lets a second one that runs at the same time find nothing to do.
create or replace function penstock.forget_expired() returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  n bigint;
begin
  if not pg_try_advisory_xact_lock(1885695608, 1) then
    return 0;
  end if;
  delete from penstock.history_log where state = 'expired';
  get diagnostics n = row_count;
  return n;
end $$;

-- Ends a session or a sign-in link of the HTTP server. True the first time.
create or replace function penstock.end_token(id text) returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into penstock.ended_token (id) values (end_token.id) on conflict do nothing;
  return found;
end $$;

-- Answers and the ids of ended tokens are kept for a day, which is longer than a token lives; tasks for a week, the proof that a task was carried out for a month, activity for a year.
-- Bounded pieces; uses the indexes on the times.
create or replace function penstock.tidy_server() returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  answers integer; tasks integer; proofs integer; acts integer;
begin
  delete from penstock.idempotent_answer where ctid = any (array(
    select ctid from penstock.idempotent_answer where made_at < clock_timestamp() - interval '1 day' limit 10000 for update skip locked));
  get diagnostics answers = row_count;
  delete from penstock.ended_token where ended_at < clock_timestamp() - interval '1 day';
  delete from penstock.service_task where ctid = any (array(
    select ctid from penstock.service_task where finished_at < clock_timestamp() - interval '7 days' limit 10000 for update skip locked));
  get diagnostics tasks = row_count;
  delete from penstock.applied_task where ctid = any (array(
    select ctid from penstock.applied_task where applied_at < clock_timestamp() - interval '30 days' limit 10000 for update skip locked));
  get diagnostics proofs = row_count;
  delete from penstock.activity_log where ctid = any (array(
    select ctid from penstock.activity_log where at < clock_timestamp() - interval '365 days' limit 10000 for update skip locked));
  get diagnostics acts = row_count;
  return jsonb_build_object('answers', answers, 'tasks', tasks, 'proofs', proofs, 'acts', acts);
end $$;
