-- At commit: the transaction joins the current generation of the queue and lowers the floor to its first position, so
-- that the first claim after the commit finds its messages. This is _join_generation, _lower_floor and _wake_waiters in
-- one statement, which takes a third of their time. Messages of a block that was open for long get later positions
-- before that: see _reposition.
-- Locks: the generation, shared, until the commit is visible; the sweep lock for a moment, without lock_timeout: a
-- commit must not fail for it. Uses queue_pkey.
create or replace function penstock._commit_put(queue_id integer, priority integer, at_position bigint) returns void
language plpgsql
set lock_timeout = 0 as $$   -- the sweep lock is held for microseconds: a commit must not fail for it
#variable_conflict use_column
declare
  below bigint;
  over  bigint;
  q     record;
begin
  if {register.value('penstock.position')} - at_position > bigint '{limit.late_positions}' then
    at_position := penstock._reposition(queue_id, priority, at_position);
  end if;
  below := greatest(bigint '0', at_position - bigint '1');
  loop
    over := {register.value('penstock.flips_over')};
    select pg_advisory_xact_lock_shared({lock.generation}
      + {generation.current({register.value(t.generation_register)})}::integer, t.id),
      pg_advisory_lock({lock.sweep}, t.id),
      case when {register.value(t.floor)} > at_position then setval(t.floor, below + bigint '1') end,
      case when {register.value(t.mark_register)} > below then setval(t.mark_register, below) end,
      case when {register.value(t.settled_register)} > below then setval(t.settled_register, below) end,
      case when {register.value(t.first_row_register)} > below then setval(t.first_row_register, below) end,
      pg_advisory_unlock({lock.sweep}, t.id),
      t.name, t.notify_register, t.waiting_register,
      pg_sequence_last_value(t.notify_register)::float8 <= date_part('epoch', clock_timestamp()) * float8 '1e6' as wakes
    into q
    from (select id, name, generation_register, mark_register, settled_register, first_row_register, notify_register,
            waiting_register, floors[array_position(priorities, _commit_put.priority::smallint)] as floor
          from penstock.queue where id = _commit_put.queue_id) t;
    exit when {register.value('penstock.flips_begun')} = over or q.name is null;
  end loop;
  if q.wakes then
    perform penstock._wake(q.notify_register, q.waiting_register, q.name);
  end if;
end $$;
