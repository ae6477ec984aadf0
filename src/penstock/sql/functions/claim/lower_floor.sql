-- Lowers the floor of a lane to a position that a transaction has taken before it joined its generation. Also lowers
-- the positions that sweeps know to be settled: neither the mark of the current generation nor settled_register may
-- claim that position. This is one expression, which cannot be interrupted halfway: the sweep lock belongs to the
-- session and has to be released.
-- Locks: the sweep lock of the queue for a moment. Indexes: none.
create or replace function penstock._lower_floor(q penstock.queue, priority integer, to_position bigint) returns void
language plpgsql as $$
declare
  floor constant regclass := q.floors[array_position(q.priorities, priority::smallint)];
  below constant bigint := greatest(0, to_position - 1);
begin
  perform pg_advisory_lock({lock.sweep}, q.id),
    case when {register.value(floor)} > to_position then setval(floor, greatest(0, to_position)) end,
    case when {register.value(q.mark_register)} > below then setval(q.mark_register, below) end,
    case when {register.value(q.settled_register)} > below then setval(q.settled_register, below) end,
    case when {register.value(q.first_row_register)} > below then setval(q.first_row_register, below) end,
    pg_advisory_unlock({lock.sweep}, q.id);
end $$;
