-- Generations: claim/sweep.sql explains them. _generation_key returns the class of the lock of a generation.
-- Locks: _join_generation takes the lock of the generation, shared, until the commit is visible. Indexes: none.
create or replace function penstock._generation_key(generation integer) returns integer language sql immutable as $$
  select {lock.generation} + generation
$$;

-- Joins the current generation of a queue until the end of the transaction. It must be called before positions are
-- taken. If the generation has changed meanwhile, a sweep may have found its lock free, so the transaction joins the
-- new one as well.
create or replace function penstock._join_generation(queue_id integer, generation_register regclass) returns void
language plpgsql as $$
declare
  generation integer;
begin
  loop
    generation := {generation.current({register.value(generation_register)})};
    perform pg_advisory_xact_lock_shared(penstock._generation_key(generation), queue_id);
    exit when {generation.current({register.value(generation_register)})} = generation;
  end loop;
end $$;

-- How many transactions hold the generations set aside, up to 255.
create or replace function penstock._holders(aside integer, queue_id integer) returns integer language sql volatile
  as $$
  select least({generation.many}, count(*))::integer from pg_locks l
  where l.locktype = 'advisory' and l.objsubid = 2 and l.objid = _holders.queue_id::oid and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid between {lock.generation} and {lock.last_generation}
      and {generation.contains(aside, (l.classid::bigint - {lock.generation})::integer)}
$$;

-- True if no transaction holds a generation. Locks: the lock of the generation, without waiting, for a moment. Indexes:
-- none.
create or replace function penstock._has_ended(generation integer, queue_id integer) returns boolean
language sql volatile as $$
  select case when pg_try_advisory_lock(penstock._generation_key(generation), queue_id)
              then pg_advisory_unlock(penstock._generation_key(generation), queue_id) else false end
$$;

-- The value of a generation register that has none: the queue is new, or the server has crashed. Transactions that were
-- prepared before the crash still hold their generations. These are set aside, and the current one is a free one.
-- Locks: as _has_ended, for each generation. Indexes: none.
create or replace function penstock._recall_generations(queue_id integer) returns bigint language plpgsql as $$
declare
  aside   bigint := 0;
  holders bigint;
  current bigint;
begin
  for i in reverse {generation.last} .. 0 loop
    if penstock._has_ended(i, _recall_generations.queue_id) then
      current := i;
    else
      aside := aside | {generation.bit(i)};
    end if;
  end loop;
  current := coalesce(current, 0);
  holders := penstock._holders(aside::integer, _recall_generations.queue_id);
  return {generation.state(bigint '0', holders, aside, current, current)};
end $$;
