-- Enqueues the message of a task. A message from before is ignored when it is claimed. Locks: the row of the task, and
-- as enqueue. Uses service_task_pkey.
create or replace function penstock._deliver_task(task uuid) returns void
language plpgsql as $$
#variable_conflict use_column
declare
  t penstock.service_task;
begin
  if not exists (select from penstock.queue q where q.name = 'penstock.tasks') then
    -- A crash counts as an attempt. Failures are counted separately, in the task.
    perform penstock.create_queue('penstock.tasks', '{"lease_seconds": 6, "max_attempts": 100, "keep_history": 1}',
      exist_ok => true);
  end if;
  update penstock.service_task s set waiting_since = null, deliveries = s.deliveries + 1, status = 'pending',
    finished_at = null where s.id = task returning * into t;
  perform penstock.enqueue('penstock.tasks', jsonb_build_object('task', t.id, 'delivery', t.deliveries, 'service',
    (select q.service_id from penstock.service_queue q where q.id = t.queue_id)), group_key => t.queue_id::text);
end $$;
