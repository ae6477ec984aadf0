-- Floors and generations.
--
-- The floor of a lane is the position from which claims look. It lets them step over rows that are dead already, which
-- PostgreSQL cannot forget while the MVCC horizon is pinned. A floor must never pass a message that is not committed yet.
--
-- Generations guarantee that. A transaction that puts messages into a lane joins the current generation of the queue: it
-- takes a shared advisory lock that PostgreSQL releases once the commit is visible. A statement in autocommit joins before it
-- takes its positions. A transaction block may stay open for hours, so it joins in a deferred trigger just before it
-- commits, and lowers the floor to its first position there: see 24_at_commit.sql.
--
-- A sweep begins a new generation about every 5 ms and notes the last position. Once nobody holds the lock of the
-- generation before, every transaction that took one of those positions has ended, and the floor may rise to the first
-- live message up to there. A generation that is still held after 250 ms (a slow standby, a prepared transaction, a long
-- statement) is set aside: floors rise without it, and every claim checks whether one of its transactions has ended. Then floors
-- are lowered to where that generation began. Nothing here depends on a clock being right, only the pace does.
--
-- Locks: (1885695608, queue) is the queue's sweep lock, held for the length of one sweep, or of one change of a floor.
-- (1885695616 to 1885695623, queue) are the locks of the eight generations that a queue can have at once.
--
-- generation_register holds five numbers: the current generation (bits 0 to 2), the one that is draining (3 to 5, the
-- current one if there is none), the ones set aside (6 to 13, one bit each), how many transactions hold those (14 to 21, 255
-- for more), and when the current one began, in milliseconds (from bit 22 on).

create or replace function penstock._generation_key(generation integer) returns integer language sql immutable as $$
  select 1885695616 + generation
$$;

-- Joins the current generation of a queue until the end of the transaction. Must be called before positions are taken. If the
-- generation has changed meanwhile, a sweep may have found its lock free: then the transaction joins the new one too.
create or replace function penstock._join_generation(queue_id integer, generation_register regclass) returns void language plpgsql as $$
declare
  generation integer;
begin
  loop
    generation := pg_sequence_last_value(generation_register) & 7;
    perform pg_advisory_xact_lock_shared(penstock._generation_key(generation), queue_id);
    exit when pg_sequence_last_value(generation_register) & 7 = generation;
  end loop;
end $$;

-- How many transactions hold the generations set aside, up to 255.
create or replace function penstock._holders(aside integer, queue_id integer) returns integer language sql volatile as $$
  select least(255, count(*))::integer from pg_locks l
  where l.locktype = 'advisory' and l.objsubid = 2 and l.objid = _holders.queue_id::oid and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid between 1885695616 and 1885695623 and aside >> (l.classid::bigint - 1885695616)::integer & 1 = 1
$$;

-- True if no transaction holds a generation.
create or replace function penstock._has_ended(generation integer, queue_id integer) returns boolean language sql volatile as $$
  select case when pg_try_advisory_lock(penstock._generation_key(generation), queue_id)
              then pg_advisory_unlock(penstock._generation_key(generation), queue_id) else false end
$$;

-- Lowers the floor of a lane to a position that a transaction has taken before it joined its generation, and what sweeps know
-- to be settled with it: neither the mark of the current generation nor settled_register may claim that position.
-- In one expression, which cannot be interrupted half way: the sweep lock is of the session and has to be released.
create or replace function penstock._lower_floor(q penstock.queue, priority integer, to_position bigint) returns void language plpgsql as $$
declare
  floor constant regclass := q.floors[array_position(q.priorities, priority::smallint)];
  below constant bigint := greatest(0, to_position - 1);
begin
  perform pg_advisory_lock(1885695608, q.id),
    case when pg_sequence_last_value(floor) > to_position then setval(floor, greatest(0, to_position)) end,
    case when pg_sequence_last_value(q.mark_register) > below then setval(q.mark_register, below) end,
    case when pg_sequence_last_value(q.settled_register) > below then setval(q.settled_register, below) end,
    case when pg_sequence_last_value(q.first_row_register) > below then setval(q.first_row_register, below) end,
    pg_advisory_unlock(1885695608, q.id);
end $$;

-- The position with which the current segment began. A message of an older segment with a higher position was inserted
-- while the ring turned: the floor has to stay at or below this one for claims to look into that segment.
create or replace function penstock._current_from() returns bigint language sql volatile as $$
  select pg_sequence_last_value('penstock.ring_until') - 32768
$$;

select penstock._unroll($unroll$
-- The first live position of a lane in a segment, from a position on.
create or replace function penstock._first_live(slot integer, queue_id integer, priority smallint, from_position bigint)
returns bigint language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
  --[ slot
  return (select r.position from penstock.ready_{slot} r where r.queue_id = _first_live.queue_id
          and r.priority = _first_live.priority and r.position >= from_position order by r.position limit 1);
  --]
end $$;

-- The first position of a lane in a segment, be the message ready or leased in place.
create or replace function penstock._first_in_lane(slot integer, queue_id integer, priority smallint)
returns bigint language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
  --[ slot
  return (select l.position from penstock.lane_{slot} l where l.queue_id = _first_in_lane.queue_id
          and l.priority = _first_in_lane.priority order by l.position limit 1);
  --]
end $$;
$unroll$);

-- One sweep: floors are raised as far as they may be, and a new generation begins. Done by a claim, at most every 5 ms for
-- each queue, or every 50 ms while nothing is enqueued. At tens of thousands of messages a second, every millisecond the floor stands still leaves dead entries
-- for each claim to walk over. The caller must not have claimed from this queue in the same transaction: its sweep would
-- not see those messages, and they come back if the transaction is rolled back.
create or replace function penstock._sweep(q penstock.queue, now_us bigint) returns void language plpgsql as $$
declare
  high       bigint;
  state      bigint;
  generation integer;
  draining   integer;
  aside      integer;
  holders    integer;
  before     integer;
  began_ms   bigint;
  age_ms     bigint;
  idle       boolean;
  ended      boolean := false;
  locked     boolean := false;
begin
  begin
    locked := pg_try_advisory_lock(1885695608, q.id);
    if not locked then
      return;
    end if;
    high := coalesce(pg_sequence_last_value('penstock.position'), 0);   -- before the new generation begins
    state := pg_sequence_last_value(q.generation_register);
    generation := state & 7;
    draining := state >> 3 & 7;
    aside := state >> 6 & 255;
    holders := state >> 14 & 255;
    began_ms := state >> 22;
    age_ms := now_us / 1000 - began_ms;
    -- Nothing was enqueued anywhere since this generation began, and all floors are above it: the queue is idle.
    idle := aside = 0 and high = pg_sequence_last_value(q.mark_register)
      and high < all (select pg_sequence_last_value(f) from unnest(q.floors) f where f is not null);
    if idle then
      perform setval(q.sweep_register, now_us + 50000 & ~bigint '1'), pg_advisory_unlock(1885695608, q.id);
      return;
    end if;
    if aside <> 0 then
      before := holders;
      holders := penstock._holders(aside, q.id);
      ended := before = 255 or holders < before;
      for i in 0 .. 7 loop
        if aside >> i & 1 = 1 and penstock._has_ended(i, q.id) then
          aside := aside & ~(1 << i);
        end if;
      end loop;
      if ended then
        perform setval(f, least(pg_sequence_last_value(f), pg_sequence_last_value(q.settled_register) + 1)) from unnest(q.floors) f where f is not null;
      end if;
    end if;
    if draining <> generation and age_ms not between 0 and 4 then
      ended := penstock._has_ended(draining, q.id);
      if ended and aside = 0 then
        perform setval(q.settled_register, pg_sequence_last_value(q.mark_register));
      elsif not ended and age_ms not between 0 and 249 then
        -- Counted before floors rise: a transaction that ends after this is missing from the next count.
        holders := least(255, holders + penstock._holders(1 << draining, q.id));
        aside := aside | (1 << draining);
        ended := true;
      end if;
      if ended then
        perform penstock._raise_floors(q, pg_sequence_last_value(q.mark_register));
        draining := generation;
      end if;
    end if;
    if draining = generation then
      for i in 1 .. 7 loop
        if aside >> (draining + i & 7) & 1 = 0 and penstock._has_ended(draining + i & 7, q.id) then
          generation := draining + i & 7;
          began_ms := now_us / 1000;
          perform setval(q.mark_register, high);
          exit;
        end if;
      end loop;
    end if;
    -- In one expression, which cannot be interrupted half way.
    perform nextval('penstock.flips_begun'),
      setval(q.generation_register, (began_ms << 22) | (holders << 14) | (aside << 6) | (draining << 3) | generation), nextval('penstock.flips_over');
    -- While a generation is set aside, every claim checks whether it has ended.
    perform setval(q.sweep_register, case when aside = 0 then now_us + 5000 & ~bigint '1' else 0 end);
  exception when query_canceled or others then
    if locked then
      perform pg_advisory_unlock(1885695608, q.id);
    end if;
    raise;
  end;
  perform pg_advisory_unlock(1885695608, q.id);
end $$;

-- Raises the floors of a queue to their first live messages, up to a position below which no transaction is open.
create or replace function penstock._raise_floors(q penstock.queue, up_to bigint) returns void language plpgsql as $$
declare
  live    text := split_part(pg_sequence_last_value('penstock.ring')::text, '9', 2);
  slots   text := translate(live, '0', '') || substring(live from '0');   -- messages move to segment 0, so it is looked at last
  current text := right(live, 1);
  floor   bigint;
  first   bigint;
  found   bigint;
begin
  slots := coalesce(slots, live);
  for lane in 1 .. cardinality(q.priorities) loop
    continue when q.floors[lane] is null;
    floor := pg_sequence_last_value(q.floors[lane]);
    first := up_to + 1;
    for i in 1 .. length(slots) loop
      found := penstock._first_live(substr(slots, i, 1)::integer, q.id, q.priorities[lane], floor);
      if substr(slots, i, 1) <> current then
        found := least(found, penstock._current_from());
      end if;
      first := least(first, found);
    end loop;
    if first > floor then
      perform setval(q.floors[lane], first);
    end if;
  end loop;
end $$;

-- The safety net: looks for messages of a queue below its floors, once a second at most. It finds something only after a
-- restore, or where registers were damaged, and counts that: see rescans_that_found. Segments are small, so this is bounded.
-- True if it found something: then the floor is where the messages are. Not counted: messages of the caller's own transaction.
-- sweeps: the caller may sweep, so that the first row of the queue can be noted, too: see _first_row.
create or replace function penstock._rescan(q penstock.queue, counted boolean, sweeps boolean default false) returns boolean language plpgsql as $$
declare
  found  boolean := false;
  locked boolean := false;
begin
  begin
    -- Not while a sweep is about to change the floors.
    locked := pg_try_advisory_lock(1885695608, q.id);
    if not locked then
      return false;
    end if;
    found := penstock._rescan_lanes(q, sweeps);
    perform setval(q.rescan_register, (date_part('epoch', clock_timestamp()) * 1e6 + 1000000)::bigint);
    if found and counted then
      perform nextval('penstock.rescans_found');
    end if;
  exception when query_canceled or others then
    if locked then
      perform pg_advisory_unlock(1885695608, q.id);
    end if;
    raise;
  end;
  perform pg_advisory_unlock(1885695608, q.id);
  return found;
end $$;

create or replace function penstock._rescan_lanes(q penstock.queue, sweeps boolean) returns boolean language plpgsql as $$
declare
  ring   text := pg_sequence_last_value('penstock.ring')::text;
  slots  text := split_part(ring, '9', 1) || translate(split_part(ring, '9', 2), '0', '') || '0';
  slot   text;
  first  bigint;
  lowest bigint;
  first_row bigint := pg_sequence_last_value(q.settled_register) + 1;   -- before the lanes are looked at
  found  boolean := false;
begin
  for lane in 1 .. cardinality(q.priorities) loop
    lowest := null;
    for i in 1 .. length(slots) loop
      slot := substr(slots, i, 1);
      first := penstock._first_in_lane(slot::integer, q.id, q.priorities[lane]);
      -- From the current segment's first position on, counts look into the current segment alone.
      first_row := least(first_row, case when slot = right(ring, 1) then first when first is not null then greatest(0, least(first, penstock._current_from())) end);
      if first is not null then
        first := penstock._first_live(slot::integer, q.id, q.priorities[lane], first);
      end if;
      if first is not null and strpos(split_part(pg_sequence_last_value('penstock.ring')::text, '9', 2), slot) = 0 then
        perform penstock._reopen(slot);
        found := true;
      end if;
      lowest := least(lowest, first);
    end loop;
    if lowest < pg_sequence_last_value(q.floors[lane]) then
      perform setval(q.floors[lane], lowest);
      found := true;
    end if;
  end loop;
  if sweeps or first_row < pg_sequence_last_value(q.first_row_register) then
    perform setval(q.first_row_xid_register, 0);   -- while the other one changes, no snapshot is new enough
    perform setval(q.first_row_register, first_row);
    perform setval(q.first_row_xid_register, (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20) | penstock._run_bits(q.first_row_register));
  end if;
  return found;
end $$;

-- 20 bits that differ from one run of the server, and from one database, to the next. A restored database has the registers of
-- another one, whose rows and transaction ids are not the same.
create or replace function penstock._run_bits(register regclass) returns bigint language sql stable as $$
  select ((date_part('epoch', pg_postmaster_start_time()) * 1e6)::bigint # (register::oid::bigint * 7919)) & 1048575
$$;

-- The position from which on all rows of a queue lie that the caller's snapshot shows. A rescan notes where the first row is, and
-- up to which transaction id others had ended by then. A snapshot in which a later one has ended was taken later. One in which
-- none before that is open shows the same, or was taken later. Any other may be older, and show rows below. A transaction that
-- has put messages into lanes sees them before its commit lowers the register.
create or replace function penstock._first_row(q penstock.queue) returns bigint language plpgsql stable as $$
declare
  seen  constant bigint := pg_sequence_last_value(q.first_row_xid_register);
  first constant bigint := pg_sequence_last_value(q.first_row_register);
  mine  constant pg_snapshot := pg_current_snapshot();
begin
  if seen <> 0 and seen = pg_sequence_last_value(q.first_row_xid_register) and seen & 1048575 = penstock._run_bits(q.first_row_register)
     and (pg_snapshot_xmax(mine)::text::bigint > seen >> 20 or pg_snapshot_xmin(mine)::text::bigint >= seen >> 20)
     and not penstock._has_announced(q.id) then
    return first;
  end if;
  return 0;
end $$;

-- How often a rescan has found a message that no claim had seen.
create or replace function penstock.rescans_that_found() returns bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
  select pg_sequence_last_value('penstock.rescans_found')
$$;

-- Puts a closing segment (or segment 0) back into use, because a message turned up in it.
create or replace function penstock._reopen(slot text) returns void language plpgsql as $$
declare
  ring text;
begin
  if not pg_try_advisory_lock(1885695603, 1) then
    return;
  end if;
  begin
    ring := pg_sequence_last_value('penstock.ring')::text;
    if strpos(split_part(ring, '9', 2), slot) = 0 then
      perform setval('penstock.ring', (replace(split_part(ring, '9', 1), slot, '') || '9' || slot || split_part(ring, '9', 2))::bigint);
      perform setval(('penstock.drained_' || slot)::regclass, 0);
    end if;
  exception when query_canceled or others then
    perform pg_advisory_unlock(1885695603, 1);
    raise;
  end;
  perform pg_advisory_unlock(1885695603, 1);
end $$;
