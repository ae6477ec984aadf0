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
