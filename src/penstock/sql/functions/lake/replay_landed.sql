-- Enqueues copies of messages from a lake into one queue, each of them once for a job, even if it is called repeatedly.
-- Takes parallel arrays of up to 10,000 messages. Returns the ids of the new copies. Locks: the rows of lake_replay,
-- and as enqueue. Uses lake_replay_pkey.
create or replace function penstock.replay_landed(
  job text, queue text, ids bigint[], enqueued_ats timestamptz[], payloads jsonb[], payloads_bytes bytea[],
    headers jsonb[], keys text[],
  priorities integer[], group_keys text[], delays interval[])
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  m    record;
  copy bigint;
begin
  if coalesce(octet_length(job), 0) not between 1 and 200 then
    perform penstock._fail_value('job', job, '1 to 200 bytes of text');
  end if;
  for m in select * from unnest(ids, enqueued_ats, payloads, payloads_bytes, headers, keys, priorities, group_keys,
    delays)
           u (id, enqueued_at, payload, payload_bytes, headers, key, priority, group_key, delay) loop
    insert into penstock.lake_replay (job, message_id, enqueued_at, copy_id)
      values (replay_landed.job, m.id, m.enqueued_at, 0)
    on conflict do nothing;
    continue when not found;
    copy := penstock.enqueue(replay_landed.queue, m.payload, m.payload_bytes, m.headers, m.key, m.priority, m.group_key,
      m.delay);
    update penstock.lake_replay r set copy_id = copy where r.job = replay_landed.job and r.message_id = m.id
      and r.enqueued_at = m.enqueued_at;
    return next copy;
  end loop;
end $$;
