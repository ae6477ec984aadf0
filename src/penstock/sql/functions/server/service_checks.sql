-- Checks of services. A server checks each registered service from time to time, and reports the result. Tasks of a
-- service that cannot be reached wait together. claim_service_checks returns the services that are due, and leaves them
-- to the caller for some seconds. Locks: the rows of these services. Reads all services.
create or replace function penstock.claim_service_checks(for_seconds integer, service text default null)
returns table (id uuid, name text, dsn text, secret text, password_file text, address_version integer,
               asked_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query
  update penstock.service s set check_at = clock_timestamp() + for_seconds * interval '1 second'
  where s.removed_at is null and s.dsn is not null
    and case when claim_service_checks.service is null then s.check_at <= clock_timestamp()
      else claim_service_checks.service in (s.name, s.id::text) end
  returning s.id, s.name, s.dsn, s.secret, s.password_file, s.address_version, clock_timestamp();
end $$;

-- Records the result of a check. A report about an address that has been changed since is ignored. If the
-- service was reached, its waiting tasks continue, in the order of the requests. If not, all its tasks wait, and those
-- that have waited for `wait_seconds` fail together. Null means no limit. Returns the number of tasks that were
-- delivered again or failed. Locks: the row of the service, and those of the tasks. Uses
-- service_task_queue and service_task_waiting.
create or replace function penstock.report_service(
  service_id uuid, address_version integer, status jsonb, error_message text, check_seconds numeric,
  wait_seconds integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.service;
  n bigint;
begin
  update penstock.service t
  set checked_at = clock_timestamp(), check_at = clock_timestamp() + check_seconds * interval '1 second',
      status = coalesce(report_service.status, t.status), error_message = report_service.error_message,
      down_since = case when report_service.error_message is not null
        then coalesce(t.down_since, clock_timestamp()) end
  where t.id = report_service.service_id and t.address_version = report_service.address_version
    and t.removed_at is null
  returning * into s;
  if s.id is null then
    return 0;
  end if;
  if s.down_since is null then
    return penstock._release_tasks(s.id);
  end if;
  update penstock.service_task t set waiting_since = clock_timestamp(), status = 'pending'
  from penstock.service_queue q
  where q.id = t.queue_id and q.service_id = s.id and t.status in ('pending', 'running') and t.waiting_since is null;
  update penstock.service_queue q set status = 'Pending', updated_at = clock_timestamp()
  where q.service_id = s.id and q.deleted_at is null and q.status = 'Provisioning';
  with over as (
    select t.id from penstock.service_task t join penstock.service_queue q on q.id = t.queue_id
    where q.service_id = s.id and t.waiting_since is not null
      and greatest(t.created_at, s.down_since) <= clock_timestamp() - wait_seconds * interval '1 second'
    order by t.created_at
  )
  select count(penstock._end_task(over.id, 'failed', null, format('service %s cannot be reached since %s: %s', s.name,
    to_char(s.down_since at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC'), s.error_message)) is null) into n from over;
  return n;
end $$;

-- Delivers the waiting tasks of a service, in the order of the requests. Locks: the rows of the queues and tasks. Uses
-- service_task_waiting.
create or replace function penstock._release_tasks(service_id uuid) returns bigint
language plpgsql as $$
#variable_conflict use_column
declare
  task uuid;
  n    bigint := 0;
begin
  for task in
    select t.id from penstock.service_task t join penstock.service_queue q on q.id = t.queue_id
    where q.service_id = _release_tasks.service_id and t.waiting_since is not null
    order by t.created_at, t.id for update of t
  loop
    perform penstock._deliver_task(task);
    n := n + 1;
  end loop;
  return n;
end $$;
