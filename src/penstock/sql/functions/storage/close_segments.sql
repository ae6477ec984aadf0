-- Closes segments that no longer have ready messages. Also takes the next segment if a burst has left the current one
-- large and empty. Only registers change, so this needs no commit. A claim does it only if its transaction has written
-- nothing before: see _may_sweep. Returns true if there is more to do for the ring: see _tend_ring. Locks: the lock of
-- the ring, without waiting, released at the end. Uses lane_N_order through _any_ready.
create or replace function penstock._close_segments() returns boolean language plpgsql as $$
declare
  ring    text;
  closing text;
  live    text;
  slot    text;
  more    boolean;
begin
  if not pg_try_advisory_lock({lock.ring}) then
    return false;
  end if;
  begin
    ring := {ring.text};
    closing := {ring.closing(ring)};
    live := {ring.in_use(ring)};
    foreach slot in array regexp_split_to_array(left(live, -1), '') loop
      continue when slot in ('', '0') or not penstock._is_done(slot);
      perform setval('penstock.ring', {ring.of(closing || slot, replace(live, slot, ''))});
      -- An enqueuer that read the ring before it turned may have inserted in between.
      if not penstock._is_done(slot) then
        perform setval('penstock.ring', {ring.of(closing, live)});
        continue;
      end if;
      closing := closing || slot;
      live := replace(live, slot, '');
    end loop;
    if penstock._is_worn(right(live, 1)) then
      perform penstock._rotate(early => true);
      live := {ring.in_use({ring.text})};
    end if;
    more := length(closing || replace(live, '0', '')) >= {ring.crowded};
    foreach slot in array regexp_split_to_array(closing || coalesce(substring(live from '0'), ''), '') loop
      continue when slot = '';
      more := penstock._is_drained(slot) or more;
    end loop;
  exception when query_canceled or others then
    perform pg_advisory_unlock({lock.ring});
    raise;
  end;
  perform pg_advisory_unlock({lock.ring});
  return more;
end $$;

-- May claims skip a segment from now on? It has no ready message, and no open transaction could put one there. The
-- order matters: the third check sees what commits before the second. Locks: as _has_writers. Indexes: as _any_ready.
create or replace function penstock._is_done(slot text) returns boolean language plpgsql as $$
begin
  return not penstock._any_ready(slot::integer) and not penstock._has_writers(slot)
    and not penstock._any_ready(slot::integer);
end $$;

-- Has an open transaction written to the lane of a segment? Tries for a lock, and rolls back to release it at once.
-- Indexes: none.
create or replace function penstock._has_writers(slot text) returns boolean language plpgsql as $$
begin
  execute format('lock table penstock.lane_%s in share mode nowait', slot);
  raise sqlstate {sqlstate.undo};
exception
  when sqlstate {sqlstate.undo} then return false;
  when lock_not_available then return true;
end $$;

-- Has the current segment no ready message, but more than 2 MB of dead rows? Counts and polls read over those. A burst
-- of two million messages leaves a gigabyte, which would stay until the next 32,768 messages turn the ring. At most
-- every 10 seconds: after a segment is truncated, every session plans its statements again.
create or replace function penstock._is_worn(slot text) returns boolean language plpgsql as $$
begin
  return date_part('epoch', clock_timestamp()) * 1e6 - pg_sequence_last_value('penstock.ring_turned_at') not between 0
    and {timing.wear_check}
         and pg_relation_size(('penstock.lane_' || slot)::regclass)
           + pg_relation_size(('penstock.leased_' || slot)::regclass)
           + pg_total_relation_size(('penstock.body_' || slot)::regclass) > {ring.worn_bytes}
         and not penstock._any_ready(slot::integer);
end $$;
