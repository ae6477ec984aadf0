-- At the commit of a transaction block whose messages in a lane are far below the floor: moves them to the end of the
-- lane. Without this, the block would lower the floor to them, and claims and sweeps would read all rows that have died
-- since: 120,000 after a minute of 2,000 messages a second, of which PostgreSQL cannot remove any while such a block is
-- open.
--
-- Rows below the floor as it is now are moved, so the block still lowers the floor to that position. It does not matter
-- if the floor rises meanwhile. The rows there are this transaction's, or another one has just committed them. If the
-- floor is in the share of positions of the current segment, claims look at no other segment, and every row of another
-- segment is moved. A transaction that put many messages into the lane moves the first ones, up to
-- `limit.late_messages` in each segment, and lowers the floor to the last of these.
--
-- Only in READ COMMITTED: otherwise a row that another transaction has claimed would be a serialization failure.
--
-- Returns the position to which the floor must be lowered.
-- Locks: the rows, with SKIP LOCKED; as _put_ready. Uses queue_pkey, and lane_N_order in the segments that this
-- transaction has written to.
create or replace function penstock._reposition(queue_id integer, priority integer, at_position bigint) returns bigint
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  floor   constant bigint := (select {register.value(f)} from penstock.queue q,
    lateral (select q.floors[array_position(q.priorities, _reposition.priority::smallint)] as f) l
    where q.id = _reposition.queue_id and f is not null);
  current constant integer := {ring.current({ring.value})};
  only_current constant boolean := floor > {ring.current_from};
  lowest  bigint := floor;
  slot    integer;
  written integer[];
  found   penstock.ready_0[];
  late    penstock.ready_0[];
  m       penstock.ready_0;
begin
  if coalesce(floor - at_position, 0) <= {limit.late_positions}
      or current_setting('transaction_isolation') <> 'read committed' then
    return at_position;
  end if;
  written := array(select s from generate_series(0, {ring.last_segment}) s
    where ('penstock.lane_' || s)::regclass = any (array(
      select l.relation from pg_locks l where l.pid = pg_backend_pid() and l.mode = 'RowExclusiveLock')));
  -- _commit_put does for all of them what _put_ready would announce for each.
  perform set_config('penstock.announced', ' ' || queue_id::text || '/' || priority::text || ' ', true);
  foreach slot in array written loop
    --: branch on slot
    with gone as (
      delete from penstock.lane_{slot} where ctid = any (array(
        select l.ctid from penstock.lane_{slot} l
        where l.queue_id = _reposition.queue_id and l.priority = _reposition.priority and l.position >= at_position
          and l.position < case when only_current and {slot} <> current then {bigint.max} else floor end and l.hold = 0
        order by l.position limit {limit.late_messages} for update skip locked))
      returning position, {envelope})
    select array_agg(g::penstock.ready_0 order by g.position) into found from gone g;
    --: end
    if cardinality(found) = {limit.late_messages} then
      lowest := least(lowest, found[{limit.late_messages}].position);
    end if;
    late := late || found;
  end loop;
  for m in select * from unnest(late) u order by u.position loop
    perform penstock._put_ready(({envelope.columns(m)})::penstock.envelope, nextval('penstock.position'));
  end loop;
  perform penstock._forget_announcements();
  return lowest;
end $$;
