-- Returns a queue of a service, or raises PS001. Locks: the row of the queue until commit. Uses service_queue_name.
create or replace function penstock._service_queue(service text, name text) returns penstock.service_queue
language plpgsql as $$
#variable_conflict use_column
declare
  s penstock.service := penstock._service(service);
  q penstock.service_queue;
begin
  select * into q from penstock.service_queue t where t.service_id = s.id and t.name = _service_queue.name
    and t.deleted_at is null for update;
  if not found then
    perform penstock._fail_no_queue(left(_service_queue.name, 200), format(' on service %L', s.name),
      jsonb_build_object('queue', left(_service_queue.name, 200), 'service', s.name), 'Create it first.');
  end if;
  return q;
end $$;
