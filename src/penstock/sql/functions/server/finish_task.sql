-- Ends a task with a result or an error. Locks: the rows of the task and its queue. Uses service_task_pkey.
create or replace function penstock.finish_task(task uuid, result jsonb, error_message text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock._end_task(task, case when error_message is null then 'completed' else 'failed' end, result,
    error_message);
end $$;

-- Ends a task: completed, failed or cancelled. Only a completed task drops its request, because the others can be
-- retried. Locks: the rows of the task and its queue. Uses service_task_pkey.
create or replace function penstock._end_task(task uuid, status text, result jsonb, error_message text) returns void
language plpgsql as $$
#variable_conflict use_column
declare
  done penstock.service_task;
begin
  update penstock.service_task t
  set status = _end_task.status, result = _end_task.result, error_message = _end_task.error_message,
      request = case when _end_task.status <> 'completed' then t.request end, waiting_since = null,
      finished_at = clock_timestamp()
  where t.id = _end_task.task and t.status in ('pending', 'running') returning * into done;
  if done.kind in ('create', 'delete') then
    update penstock.service_queue q
    set status = case when done.status = 'cancelled' and done.kind = 'delete' and penstock._was_created(q.id)
          then 'Active' when done.status <> 'completed' then 'Failed' when done.kind = 'create' then 'Active'
          else q.status end,
        error_message = case when done.status = 'cancelled' and done.kind = 'delete' then null
          else done.error_message end,
        updated_at = clock_timestamp(),
        deleted_at = case when done.status = 'completed' and done.kind = 'delete' then clock_timestamp()
          else q.deleted_at end
    -- A queue whose removal was requested in the meantime is still removed.
    where q.id = done.queue_id and not (done.kind = 'create' and q.status = 'Deprovisioning');
  end if;
end $$;

-- Whether a queue of a service has been created there: by a task that was deleted since, or by one that completed.
-- Locks: none. Uses service_task_queue.
create or replace function penstock._was_created(queue_id uuid) returns boolean language sql stable as $$
  select not exists (select from penstock.service_task t where t.queue_id = _was_created.queue_id
      and t.kind = 'create')
    or exists (select from penstock.service_task t where t.queue_id = _was_created.queue_id and t.kind = 'create'
      and t.status = 'completed');
$$;
