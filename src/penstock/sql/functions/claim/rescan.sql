-- The safety net: looks for messages of a queue below its floors, at most once a second. It finds messages only after a
-- restore, or if registers were damaged, and counts that (rescans_that_found). Segments are small, so the work is
-- bounded. True if it found messages: then the floor is where they are. Messages of the transaction of the caller are
-- not counted. sweeps: the caller may sweep, so the first row of the queue can be noted as well (read/first_row.sql).
-- Locks: the sweep lock of the queue, without waiting. Uses lane_N_order.
create or replace function penstock._rescan(q penstock.queue, counted boolean, sweeps boolean default false)
returns boolean language plpgsql as $$
declare
  found  boolean := false;
  locked boolean := false;
begin
  begin
    -- Not while a sweep changes the floors.
    locked := pg_try_advisory_lock({lock.sweep}, q.id);
    if not locked then
      return false;
    end if;
    found := penstock._rescan_lanes(q, sweeps);
    perform setval(q.rescan_register, (date_part('epoch', clock_timestamp()) * 1e6 + {timing.rescan})::bigint);
    if found and counted then
      perform nextval('penstock.rescans_found');
    end if;
  exception when query_canceled or others then
    if locked then
      perform pg_advisory_unlock({lock.sweep}, q.id);
    end if;
    raise;
  end;
  perform pg_advisory_unlock({lock.sweep}, q.id);
  return found;
end $$;

-- Searches all lanes of a queue in all segments that are not free, and notes the first row. Locks: none. The
-- caller holds the sweep lock, so no other session sets these registers. Indexes: as _first_in_lane and _first_live.
create or replace function penstock._rescan_lanes(q penstock.queue, sweeps boolean) returns boolean language plpgsql
  as $$
declare
  ring   text := {ring.text};
  slots  text := {ring.closing(ring)} || translate({ring.in_use(ring)}, '0', '') || '0';
  slot   text;
  first  bigint;
  lowest bigint;
  first_row bigint := {register.value(q.settled_register)} + 1;   -- before the lanes are looked at
  found  boolean := false;
begin
  for lane in 1 .. cardinality(q.priorities) loop
    lowest := null;
    for i in 1 .. length(slots) loop
      slot := substr(slots, i, 1);
      first := penstock._first_in_lane(slot::integer, q.id, q.priorities[lane]);
      -- From the current segment's first position on, counts look into the current segment alone.
      first_row := least(first_row, case when slot = right(ring, 1) then first when first is not null
        then greatest(0, least(first, penstock._current_from())) end);
      if first is not null then
        first := penstock._first_live(slot::integer, q.id, q.priorities[lane], first);
      end if;
      if first is not null and strpos({ring.in_use({ring.text})}, slot) = 0 then
        perform penstock._reopen(slot);
        found := true;
      end if;
      lowest := least(lowest, first);
    end loop;
    if lowest < {register.value(q.floors[lane])} then
      perform setval(q.floors[lane], lowest);
      found := true;
    end if;
  end loop;
  if sweeps or first_row < {register.value(q.first_row_register)} then
    perform setval(q.first_row_xid_register, 0);   -- while the other one changes, no snapshot is new enough
    perform setval(q.first_row_register, first_row);
    perform setval(q.first_row_xid_register,
      {first_row.of(pg_snapshot_xmax(pg_current_snapshot())::text::bigint, penstock._run_bits(q.first_row_register))});
  end if;
  return found;
end $$;

-- How often a rescan has found a message that no claim had seen.
create or replace function penstock.rescans_that_found() returns bigint language sql security definer
set search_path = pg_catalog, pg_temp as $$
  select pg_sequence_last_value('penstock.rescans_found')
$$;
