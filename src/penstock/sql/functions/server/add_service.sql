-- Registers a service without a separate password. Locks: the new row. Uses service_name.
create or replace function penstock.add_service(name text, dsn text, created_by text default null) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return penstock.register_service(name, dsn, null, null, created_by);
end $$;
