-- The control plane has services, their queues, and the tasks that provision them. Each request is one transaction with
-- the row, the task and the message that delivers the task to a server.
--
-- register_service: registers a service whose password is encrypted (`secret`), or in a file of the servers
-- (`password_file`). Locks: the new row. Uses service_name.
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
