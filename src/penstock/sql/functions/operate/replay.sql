-- Enqueues a copy of a finished message, into its queue or another. Returns the new id. Locks: as enqueue. Uses
-- history_log_id.
create or replace function penstock.replay(id bigint, queue text default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  h penstock.history_log;
begin
  select * into h from penstock.history_log t where t.id = replay.id order by t.finished_at desc limit 1;
  if not found then
    perform penstock._fail_unknown_message(replay.id,
      'Only messages in history can be replayed. The setting keep_history of a queue says how long it keeps them.');
  end if;
  if not exists (select from penstock.queue q where q.name = coalesce(replay.queue, h.queue)) then
    perform penstock._fail({sqlstate.cannot_be_replayed},
      format('message %s cannot be replayed: queue %L does not exist', replay.id, coalesce(replay.queue, h.queue)),
      jsonb_build_object('id', replay.id, 'queue', coalesce(replay.queue, h.queue)),
      'Create the queue, or replay into another one.');
  end if;
  return penstock.enqueue(coalesce(replay.queue, h.queue), h.payload, h.payload_bytes, h.headers, h.key, h.priority,
                          h.group_key, max_attempts => h.max_attempts);
end $$;
