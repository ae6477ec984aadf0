-- Records queues that were created or dropped without a task. It adds queues that exist only on the service, removes
-- queues that exist only here, and updates settings. Locks: the changed rows. Uses service_queue_name.
create or replace function penstock.adopt_queues(
  service text, database_name text, names text[], visibility_timeouts integer[], max_attempts integer[],
    dlq_enabled boolean[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock.adopt_queues_v2(service, database_name, names, visibility_timeouts, max_attempts, dlq_enabled,
    clock_timestamp());
end $$;

-- The same with the time at which the service was asked. A queue that a task has changed since then is left alone.
-- Locks: the changed rows. Uses service_queue_name.
create or replace function penstock.adopt_queues_v2(
  service text, database_name text, names text[], visibility_timeouts integer[], max_attempts integer[],
    dlq_enabled boolean[], asked_at timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.service := penstock._service(service);
begin
  update penstock.service_queue q set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
  where q.service_id = s.id and q.database_name in (adopt_queues_v2.database_name, 'defaultdb') and q.status = 'Active'
    and q.deleted_at is null and q.name <> all (names) and q.updated_at < asked_at;
  update penstock.service_queue q
  set visibility_timeout_seconds = n.visibility_timeout, max_attempts = n.max_attempts, dlq_enabled = n.dlq_enabled,
    updated_at = clock_timestamp()
  from unnest(names, visibility_timeouts, adopt_queues_v2.max_attempts, adopt_queues_v2.dlq_enabled) n (name,
    visibility_timeout, max_attempts, dlq_enabled)
  where q.service_id = s.id and q.name = n.name and q.status = 'Active' and q.deleted_at is null
    and q.updated_at < asked_at
    and (q.visibility_timeout_seconds, q.max_attempts, q.dlq_enabled) is distinct
      from (n.visibility_timeout, n.max_attempts, n.dlq_enabled);
  insert into penstock.service_queue (service_id, name, database_name, visibility_timeout_seconds, max_attempts,
    dlq_enabled, status)
  select s.id, n.name, adopt_queues_v2.database_name, n.visibility_timeout, n.max_attempts, n.dlq_enabled, 'Active'
  from unnest(names, visibility_timeouts, adopt_queues_v2.max_attempts, adopt_queues_v2.dlq_enabled) n (name,
    visibility_timeout, max_attempts, dlq_enabled)
  where n.name !~ '^penstock\.'
  on conflict (service_id, name) where deleted_at is null do nothing;
end $$;
