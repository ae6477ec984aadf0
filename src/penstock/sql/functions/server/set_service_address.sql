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
