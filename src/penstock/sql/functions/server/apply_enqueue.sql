-- Runs on the service and enqueues the messages of a task. If the task was executed before, returns the earlier result.
-- The row of the task and the messages are written in one transaction, so a task is executed once. Locks: the row of
-- the task, and as enqueue_many. Uses applied_task_pkey.
create or replace function penstock.apply_enqueue(task uuid, queue text, payloads jsonb[], delays interval[])
returns bigint[]
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids bigint[];
begin
  -- A second server with the same task waits here for the first.
  insert into penstock.applied_task (task_id, result) values (task, '[]') on conflict do nothing;
  if not found then
    return array(select value::bigint from penstock.applied_task t, jsonb_array_elements_text(t.result) value
      where t.task_id = task);
  end if;
  ids := array(select penstock.enqueue_many(queue, payloads, delays => delays));
  update penstock.applied_task t set result = to_jsonb(ids) where t.task_id = task;
  return ids;
end $$;
