-- Floors. A lane's floor is where claims begin to look: a hint that lets them step over what is dead already, which
-- PostgreSQL itself cannot forget while the horizon is pinned. It may be wrong: _rescan finds whatever it hides.

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
$unroll$);

-- Moves the floors of a queue up to its first live messages. Done by a claim, at most every 5 ms per queue: at tens
-- of thousands of messages a second, every millisecond the floor stands still is dead entries for each claim to walk
-- over. It never passes a message that is being claimed (those are still visible here), nor what was enqueued within
-- the last turn and may not be committed yet.
create or replace function penstock._sweep(q penstock.queue, now_us bigint) returns void language plpgsql as $$
declare
  turn_us constant bigint := 5000;
  high    bigint := pg_sequence_last_value('penstock.position');
  live    text := split_part(pg_sequence_last_value('penstock.ring')::text, '9', 2);
  bound   bigint;
  floor   bigint;
  first   bigint;
begin
  perform setval(q.sweep_register, now_us + turn_us);
  case now_us / turn_us % 3
    when 0 then bound := pg_sequence_last_value('penstock.mark_2'); perform setval('penstock.mark_0', high);
    when 1 then bound := pg_sequence_last_value('penstock.mark_0'); perform setval('penstock.mark_1', high);
    else        bound := pg_sequence_last_value('penstock.mark_1'); perform setval('penstock.mark_2', high);
  end case;
  for lane in 1 .. cardinality(q.priorities) loop
    floor := pg_sequence_last_value(q.floors[lane]);
    first := null;
    for i in 1 .. length(live) loop
      first := penstock._first_live(substr(live, i, 1)::integer, q.id, q.priorities[lane], floor);
      exit when first is not null;
    end loop;
    first := least(first, bound + 1);
    if first > floor then
      perform setval(q.floors[lane], first);
    end if;
  end loop;
end $$;

-- Looks for messages of a queue below its floors: of transactions that committed late, of claims that were rolled
-- back, or after a restore. Segments are small, so this is bounded; and it is paid for out of a budget, about one part
-- in fifty of the time, but at least once a second. The budget goes by the blocks there are to walk over, some 4
-- microseconds each if all are dead, and not by the clock: on a busy machine that would count the time of others, and a
-- claim right after a late commit would find nothing. True if there were any: then the floor is where they are.
create or replace function penstock._rescan(q penstock.queue) returns boolean language plpgsql as $$
declare
  rest_us constant bigint := 200;
  blocks  bigint := 0;
  ring    text := pg_sequence_last_value('penstock.ring')::text;
  closing text := split_part(ring, '9', 1);
  slots   text := closing || '0' || translate(split_part(ring, '9', 2), '0', '');
  slot    text;
  first   bigint;
  lowest  bigint;
  found   boolean := false;
begin
  for lane in 1 .. cardinality(q.priorities) loop
    lowest := null;
    for i in 1 .. length(slots) loop
      slot := substr(slots, i, 1);
      first := penstock._first_live(slot::integer, q.id, q.priorities[lane], 0);
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
  for i in 1 .. length(slots) loop
    blocks := blocks + pg_relation_size(('penstock.lane_' || substr(slots, i, 1))::regclass) / 8192;
  end loop;
  perform setval(q.rescan_register, (date_part('epoch', clock_timestamp()) * 1e6 + least(1e6, rest_us * blocks))::bigint);
  return found;
end $$;

-- Puts a closing segment (or the attic) back into use, because a message turned up in it.
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
