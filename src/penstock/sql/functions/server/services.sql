-- The control plane: services, their queues, and the tasks that provision them. Each request is one transaction with
-- the row, the task and the message that delivers the task to a server. add_service registers a service. Locks: the new
-- row. Uses service_name.
create or replace function penstock.add_service(name text, dsn text, created_by text default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return penstock.register_service(name, dsn, null, null, created_by);
end $$;

-- Registers a service whose password is encrypted (`secret`), or in a file of the servers (`password_file`). Locks: the
-- new row. Uses service_name.
create or replace function penstock.register_service(
  name text, dsn text, secret text, password_file text, created_by text default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  made uuid;
begin
  if coalesce(register_service.name, '') !~ '^[a-z0-9][a-z0-9_-]{0,62}$' then
    perform penstock._fail_value('name', register_service.name,
      '1 to 63 lowercase letters, digits, - and _, not beginning with - or _');
  end if;
  insert into penstock.service as s (name, dsn, secret, password_file, created_by)
    values (register_service.name, register_service.dsn, register_service.secret, register_service.password_file,
      register_service.created_by)
  on conflict (name) where removed_at is null do nothing returning s.id into made;
  if made is null then
    perform penstock._fail('PS023', format('service %L already exists', register_service.name),
      jsonb_build_object('service', register_service.name), 'Choose another name, or remove the existing service.');
  end if;
  return made;
end $$;

-- Changes the address and the credentials of a service. Its queues and tasks stay, and it is checked again soon. Locks:
-- the row of the service. Uses service_name.
create or replace function penstock.set_service_address(service text, dsn text, secret text, password_file text)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  found_service penstock.service := penstock._service(service);
begin
  if found_service.dsn is null then
    perform penstock._fail_value('service', service, 'a service other than local, which is this database');
  end if;
  update penstock.service s
  set dsn = set_service_address.dsn, secret = set_service_address.secret,
      password_file = set_service_address.password_file, address_version = s.address_version + 1,
      check_at = clock_timestamp()
  where s.id = found_service.id;
end $$;

-- Removes the registration of a service and of its queues, by name or id. The databases of the service are not changed.
-- Locks: the rows of the service and its queues. Uses service_name.
create or replace function penstock.remove_service(service text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  found_service penstock.service := penstock._service(service);
begin
  if found_service.dsn is null then
    perform penstock._fail_value('service', service, 'a service other than local, which is this database');
  end if;
  update penstock.service s set removed_at = clock_timestamp(), dsn = '', secret = null, password_file = null,
    down_since = null where s.id = found_service.id;
  update penstock.service_queue q set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
  where q.service_id = found_service.id and q.deleted_at is null;
  perform penstock._end_task(t.id, 'failed', null, format('service %L was removed', found_service.name))
  from penstock.service_task t join penstock.service_queue q on q.id = t.queue_id
  where q.service_id = found_service.id and t.status in ('pending', 'running');
end $$;

-- Returns a service by its name or id, or raises PS022. Locks: none. Uses service_name.
create or replace function penstock._service(service text) returns penstock.service language plpgsql stable as $$
#variable_conflict use_column
declare
  s penstock.service;
begin
  select * into s from penstock.service t where service in (t.name, t.id::text) and t.removed_at is null;
  if not found then
    perform penstock._fail('PS022', format('service %L does not exist', left(service, 200)),
      jsonb_build_object('service', left(service, 200)),
      'Add it with `penstock service add`. The service local is this database.');
  end if;
  return s;
end $$;

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
