-- The queues, with the names of the contract. They are the same queues as in every other interface.
-- Locks and indexes: as create_queue, set_queue and drop_queue, which the trigger below calls.
create or replace view mdb_queue.queues with (security_barrier) as
select q.name, q.lease_seconds as visibility_timeout_seconds, q.max_attempts::integer as max_attempts, q.dlq_enabled,
  q.created_at, q.updated_at
from penstock.queue q where not q.name ^@ 'penstock.' or penstock._is_admin();

-- INSERT, UPDATE and DELETE on mdb_queue.queues create, change and drop a queue. The view has the names of the
-- contract, so this translates them. Locks and indexes: as create_queue, set_queue and drop_queue.
create or replace function mdb_queue._change_queue() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    perform penstock.drop_queue(old.name);
    return old;
  elsif tg_op = 'INSERT' then
    perform penstock.create_queue(new.name, jsonb_strip_nulls(jsonb_build_object(
      'lease_seconds', new.visibility_timeout_seconds, 'max_attempts', new.max_attempts, 'dlq_enabled',
        new.dlq_enabled)));
  elsif new.name is distinct from old.name then
    perform penstock._fail_value('name', new.name, 'the current name, because a queue cannot be renamed');
  else
    perform penstock.set_queue(old.name, jsonb_build_object(
      'lease_seconds', new.visibility_timeout_seconds, 'max_attempts', new.max_attempts, 'dlq_enabled',
        new.dlq_enabled));
  end if;
  select * into new from mdb_queue.queues q where q.name = new.name;
  return new;
end $$;

create or replace trigger change instead of insert or update or delete on mdb_queue.queues
for each row execute function mdb_queue._change_queue();
