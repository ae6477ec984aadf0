-- A message has reached its end: writes history if the queue keeps it, deletes its body and its key, and counts it in
-- its batch. Locks: only the rows that it deletes. Uses body_N_id, message_key_pkey and batch_member_pkey.
create or replace function penstock._finish(m penstock.envelope, state text, reason text) returns void language plpgsql
  as $$
declare
  q penstock.queue;
begin
  select * into q from penstock.queue t where t.id = m.queue_id;
  if q.keep_history > 0 then
    if m.body_slot is not null then
      m.payload := penstock._body_json(m.body_slot, m.id);
      m.payload_bytes := penstock._body_bytes(m.body_slot, m.id);
    end if;
    {history.insert(m, q.name, state, clock_timestamp(), coalesce(reason, m.last_error))};
  end if;
  if m.body_slot is not null then
    perform penstock._drop_body(m.body_slot, m.id);
  end if;
  if m.key is not null then
    perform penstock._forget_key(m.queue_id, m.key, m.id);
  end if;
  if q.has_members then
    perform penstock._end_members(array[m.id], state);
  end if;
end $$;
