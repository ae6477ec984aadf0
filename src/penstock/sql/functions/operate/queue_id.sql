-- Returns the id of a queue, or raises PS001. Locks: none. Uses queue_name_key.
create or replace function penstock._queue_id(queue text) returns integer language plpgsql stable as $$
declare
  found integer := (select q.id from penstock.queue q where q.name = _queue_id.queue);
begin
  if found is null then
    perform penstock._fail_unknown_queue(queue);
  end if;
  return found;
end $$;
