-- Carries out a failed or cancelled task again. A second retry enqueues no message twice. Locks: the
-- rows of the task and its queue. Uses service_task_pkey.
create or replace function penstock.retry_service_task(service text, task uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  t       penstock.service_task := penstock._service_task(service, task);
  q       penstock.service_queue;
  is_down boolean;
begin
  select * into q from penstock.service_queue r where r.id = t.queue_id for update;
  if t.status not in ('failed', 'cancelled') then
    perform penstock._fail_task_status(t.id, t.status, 'Only a failed or cancelled task can be retried.');
  end if;
  if q.deleted_at is not null or t.kind in ('enqueue', 'stats') and q.status <> 'Active' then
    perform penstock._fail_not_active(q.name, case when q.deleted_at is null then q.status else 'removed' end,
      'Retry the queue first.');
  end if;
  if t.kind in ('create', 'delete') then
    if exists (select from penstock.service_task o where o.queue_id = q.id and o.kind in ('create', 'delete')
      and o.status in ('pending', 'running')) then
      perform penstock._fail('PS030', format('queue %L has a task in progress', q.name), jsonb_build_object('queue',
        q.name, 'status', q.status), 'Wait for that task.');
    end if;
    update penstock.service_queue r set status = case t.kind when 'create' then 'Pending' else 'Deprovisioning' end,
      error_message = null, updated_at = clock_timestamp() where r.id = q.id;
  end if;
  select s.down_since is not null into is_down from penstock.service s where s.id = q.service_id for share;
  update penstock.service_task o set status = 'pending', failures = 0, error_message = null, finished_at = null,
    waiting_since = case when is_down then clock_timestamp() end where o.id = t.id;
  if not is_down then
    perform penstock._deliver_task(t.id);
  end if;
end $$;
