-- Lanes: the messages of one queue with one priority form a lane. The first message of a priority, or the first with a
-- group or a time to live, changes the statements that claims need. The enqueuer writes that into lanes_register
-- (layout/register.sql) at once, and claims read it there. The row of the queue follows at the commit of a claim, in
-- _adopt_lanes. _lane_bits returns the bits that a message needs. Locks: none. Indexes: none.
create or replace function penstock._lane_bits(priority integer, stays_plain boolean) returns integer
language sql immutable as $$
  select {lanes.priority(priority)} | case when stays_plain then 0 else {lanes.not_plain} end
$$;

-- Adds bits to lanes_register. One expression, which cannot be interrupted halfway. Locks: the sweep lock of the queue,
-- for which it waits, while it sets the register. Indexes: none.
create or replace function penstock._widen(q penstock.queue, bits integer) returns void language plpgsql as $$
begin
  if pg_sequence_last_value(q.lanes_register) & bits <> bits then
    -- In one expression, which cannot be interrupted halfway.
    perform pg_advisory_lock({lock.sweep}, q.id),
      setval(q.lanes_register, pg_sequence_last_value(q.lanes_register) | bits),
      pg_advisory_unlock({lock.sweep}, q.id);
  end if;
end $$;

-- Returns the queue with the lanes in its register. A lane that the row does not have yet has no floor: claims look
-- from the beginning.
create or replace function penstock._with_lanes(q penstock.queue) returns penstock.queue language plpgsql as $$
declare
  bits constant integer := pg_sequence_last_value(q.lanes_register);
begin
  if bits <> q.lane_bits then
    select array_agg(p order by p desc), array_agg(q.floors[array_position(q.priorities, p::smallint)] order by p desc)
    into q.priorities, q.floors from generate_series(-9, 9) p where {lanes.contain(bits, p)};
    q.plain := {lanes.are_plain(bits)};
  end if;
  return q;
end $$;

-- Writes new lanes into the row of their queue, and creates their floors. Skips a queue whose row is locked. Locks: the
-- row of the queue until commit. Scans the queues.
create or replace function penstock._adopt_lanes() returns void language plpgsql as $$
declare
  q penstock.queue;
begin
  for q in select * from penstock.queue t
    where t.lane_bits <> pg_sequence_last_value(t.lanes_register) for no key update skip locked loop
    q := penstock._with_lanes(q);
    for i in 1 .. cardinality(q.priorities) loop
      q.floors[i] := coalesce(q.floors[i], penstock._unlogged_register(format('floor_%s_%s', q.id,
        replace(q.priorities[i]::text, '-', 'm'))));
    end loop;
    update penstock.queue u
    set priorities = q.priorities, floors = q.floors, plain = q.plain,
        lane_bits = (select sum({lanes.priority(p)}) from unnest(q.priorities) p) + case when q.plain then 0
          else {lanes.not_plain} end
    where u.id = q.id;
  end loop;
end $$;
