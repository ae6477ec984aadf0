-- The ring of segments: taking the next one, closing drained ones, truncating closed ones.
-- Whoever changes penstock.ring holds the advisory lock (1885695603, 1), tried for, never waited for.

-- Takes the next free segment once the current one has had its share of positions, or early. Only registers change, so this is
-- safe in anybody's transaction. With none free the current one grows until one is.
create or replace function penstock._rotate(early boolean default false) returns void language plpgsql as $$
declare
  share constant bigint := 32768;
  ring  text;
  high  bigint;
  free  text;
begin
  if not pg_try_advisory_lock(1885695603, 1) then
    return;
  end if;
  begin
    high := coalesce(pg_sequence_last_value('penstock.position'), 0);
    if early or high >= pg_sequence_last_value('penstock.ring_until') then
      ring := pg_sequence_last_value('penstock.ring')::text;
      free := left(translate('12345678', ring, ''), 1);
      -- Always a full share: claims rely on it to know that a floor lies in the current segment.
      perform setval('penstock.ring_until', high + share), setval('penstock.ring_turned_at', (date_part('epoch', clock_timestamp()) * 1e6)::bigint);
      if free <> '' then
        perform setval('penstock.ring', (ring || free)::bigint);
      end if;
    end if;
  exception when query_canceled or others then
    perform pg_advisory_unlock(1885695603, 1);
    raise;
  end;
  perform pg_advisory_unlock(1885695603, 1);
end $$;

-- The segments that may hold rows: all but the free ones.
create or replace function penstock._used_slots() returns integer[] language sql as $$
  select array_agg(digit::integer)
  from regexp_split_to_table('0' || translate(pg_sequence_last_value('penstock.ring')::text, '09', ''), '') digit
$$;

select penstock._unroll($unroll$
-- The current segment, held in the ring until the end of the transaction: truncating it takes a lock that conflicts
-- with the one taken here.
create or replace function penstock._hold_current() returns integer language plpgsql as $$
declare
  slot integer;
begin
  loop
    slot := pg_sequence_last_value('penstock.ring') % 10;
    --[ slot
    delete from penstock.lane_{slot} where false;
    --]
    if strpos(pg_sequence_last_value('penstock.ring')::text, slot::text) > 0 then
      return slot;
    end if;
  end loop;
end $$;
$unroll$);

-- Closes segments whose ready messages are gone, and turns the ring where a burst has left the current segment large and
-- empty. Only registers change, so this is safe in anybody's transaction. True if there is more to do for the ring: see _tend_ring.
create or replace function penstock._close_segments() returns boolean language plpgsql as $$
declare
  ring    text;
  closing text;
  live    text;
  slot    text;
  more    boolean;
begin
  if not pg_try_advisory_lock(1885695603, 1) then
    return false;
  end if;
  begin
    ring := pg_sequence_last_value('penstock.ring')::text;
    closing := split_part(ring, '9', 1);
    live := split_part(ring, '9', 2);
    foreach slot in array regexp_split_to_array(left(live, -1), '') loop
      continue when slot in ('', '0') or not penstock._is_done(slot);
      perform setval('penstock.ring', (closing || slot || '9' || replace(live, slot, ''))::bigint);
      -- An enqueuer that had read the ring before it turned may have come in between.
      if not penstock._is_done(slot) then
        perform setval('penstock.ring', (closing || '9' || live)::bigint);
        continue;
      end if;
      closing := closing || slot;
      live := replace(live, slot, '');
    end loop;
    if penstock._is_worn(right(live, 1)) then
      perform penstock._rotate(early => true);
      live := split_part(pg_sequence_last_value('penstock.ring')::text, '9', 2);
    end if;
    more := length(closing || replace(live, '0', '')) >= 6;
    foreach slot in array regexp_split_to_array(closing || coalesce(substring(live from '0'), ''), '') loop
      continue when slot = '';
      more := penstock._is_drained(slot) or more;
    end loop;
  exception when query_canceled or others then
    perform pg_advisory_unlock(1885695603, 1);
    raise;
  end;
  perform pg_advisory_unlock(1885695603, 1);
  return more;
end $$;

-- Claims need not look into a segment any more: it has no ready message, and no transaction that is still open could put
-- one there. In this order: what commits before the second look is seen by the third.
create or replace function penstock._is_done(slot text) returns boolean language plpgsql as $$
begin
  return not penstock._any_ready(slot::integer) and not penstock._has_writers(slot) and not penstock._any_ready(slot::integer);
end $$;

-- Has a transaction that is still open written to the lane of a segment? Asked by trying for a lock, which is given back at once.
create or replace function penstock._has_writers(slot text) returns boolean language plpgsql as $$
begin
  execute format('lock table penstock.lane_%s in share mode nowait', slot);
  raise sqlstate 'PS001';
exception
  when sqlstate 'PS001' then return false;
  when lock_not_available then return true;
end $$;

-- Has the current segment no ready message, but more than 2 MB of rows that are gone? Counts and polls read over those, and a burst
-- of two million messages leaves a gigabyte, which would stay until the next 32,768 messages turn the ring. At most every 10
-- seconds: after a segment is truncated, every session makes its plans again.
create or replace function penstock._is_worn(slot text) returns boolean language plpgsql as $$
begin
  return date_part('epoch', clock_timestamp()) * 1e6 - pg_sequence_last_value('penstock.ring_turned_at') not between 0 and 10000000
         and pg_relation_size(('penstock.lane_' || slot)::regclass) + pg_relation_size(('penstock.leased_' || slot)::regclass)
           + pg_total_relation_size(('penstock.body_' || slot)::regclass) > 2097152
         and not penstock._any_ready(slot::integer);
end $$;

-- Looks after the ring: truncates closed segments, and moves what is left in the oldest to the attic when segments run
-- short. Returns how many segments became free.
-- Locks until the end of the transaction: ACCESS EXCLUSIVE on the tables of segments that nobody uses any more, NOWAIT;
-- the ring, so that nobody is sent into them before.
create or replace function penstock._tend_ring() returns integer language plpgsql as $$
declare
  ring    text;
  closing text;
  live    text;
  slot    text;
  freed   integer := 0;
begin
  if not penstock._close_segments() or not pg_try_advisory_xact_lock(1885695603, 1) then
    return 0;
  end if;
  ring := pg_sequence_last_value('penstock.ring')::text;
  closing := split_part(ring, '9', 1);
  live := split_part(ring, '9', 2);
  foreach slot in array regexp_split_to_array(closing, '') loop
    continue when slot = '';
    if penstock._is_drained(slot) and penstock._free_segment(slot) then
      closing := replace(closing, slot, '');
      perform setval('penstock.ring', (closing || '9' || live)::bigint);
      freed := freed + 1;
    end if;
  end loop;
  if length(closing || replace(live, '0', '')) >= 6 then
    perform penstock._clear_oldest(left(closing || replace(live, '0', ''), 1)::integer);
  elsif strpos(live, '0') > 0 and penstock._is_drained('0') and penstock._free_segment('0') then
    perform setval('penstock.ring', (closing || '9' || replace(live, '0', ''))::bigint);
  end if;
  return freed;
end $$;

-- Has a segment held nothing for a second? Truncation is not MVCC-safe: a snapshot from before finds the table empty,
-- and misses what has moved on since to where it cannot see it. pg_dump locks all tables soon after its snapshot, so
-- that second keeps dumps whole. What was found empty is not looked at again until then, when it is locked: to find nothing takes
-- longest. Only a late commit could fill it, and whoever finds that reopens it; the attic is filled now and then.
create or replace function penstock._is_drained(slot text) returns boolean language plpgsql as $$
declare
  register regclass := ('penstock.drained_' || slot)::regclass;
  since_us bigint := pg_sequence_last_value(register);
  now_us   bigint := date_part('epoch', clock_timestamp()) * 1e6;
begin
  if (slot = '0' or since_us not between 1 and now_us) and penstock._holds_rows(slot) then
    if since_us > 0 then
      perform setval(register, 0);
    end if;
    return false;
  end if;
  if since_us not between 1 and now_us then
    perform setval(register, now_us);
    return false;
  end if;
  return now_us - since_us >= 1000000;
end $$;

-- Truncates a segment if nobody holds it and it is empty. The lock proves that nobody is left who could still commit
-- into it; a slow enqueuer, or a reader of the segment, only makes it wait for another time. If it is not empty after
-- all it is let go of at once: whoever acks what is leased there would wait otherwise.
create or replace function penstock._free_segment(slot text) returns boolean language plpgsql as $$
begin
  execute replace('lock table penstock.lane_#, penstock.leased_#, penstock.grant_#, penstock.body_#, penstock.bell_# in access exclusive mode nowait', '#', slot);
  if penstock._holds_rows(slot) then
    perform setval(('penstock.drained_' || slot)::regclass, 0);
    raise lock_not_available;
  end if;
  execute replace('truncate penstock.lane_#, penstock.leased_#, penstock.grant_#, penstock.body_#, penstock.bell_#', '#', slot);
  perform setval(('penstock.drained_' || slot)::regclass, 0);
  return true;
exception when lock_not_available or object_in_use then   -- in use: by the bell that brought us here
  return false;
end $$;

create or replace function penstock._holds_rows(slot text) returns boolean language plpgsql as $$
declare
  found boolean;
begin
  execute replace('select exists (select from penstock.lane_# where ctid >= $1) or exists (select from penstock.leased_# where ctid >= $2)
                     or exists (select from penstock.lane_#) or exists (select from penstock.leased_#) or exists (select from penstock.body_#)', '#', slot)
  into found using penstock._late_block('lane_' || slot, 8), penstock._late_block('leased_' || slot, 8);
  return found;
end $$;

-- Where the last so many blocks of a table begin. Segments empty themselves from the front: as long as there is something
-- left in one, it is there, and not behind everything that is dead.
create or replace function penstock._late_block(name text, blocks integer) returns tid language sql as $$
  select format('(%s,0)', greatest(0, pg_relation_size(('penstock.' || name)::regclass) / current_setting('block_size')::integer - blocks))::tid
$$;

-- Does a segment hold a ready message? Along the floors of all lanes, which steps over what is dead; with more than 500 queues, by a
-- scan of the segment.
create or replace function penstock._any_ready(slot integer) returns boolean language plpgsql as $$
declare
  q     penstock.queue;
  found boolean;
begin
  if (select count(*) from (select from penstock.queue limit 501) c) > 500 then
    execute format('select exists (select from penstock.lane_%1$s where ctid >= $1 and hold = 0) or exists (select from penstock.lane_%1$s where hold = 0)', slot)
    into found using penstock._late_block('lane_' || slot, 200);
    return found;
  end if;
  for q in select * from penstock.queue loop
    q := penstock._with_lanes(q);
    for lane in 1 .. cardinality(q.priorities) loop
      if penstock._first_live(slot, q.id, q.priorities[lane], coalesce(pg_sequence_last_value(q.floors[lane]), 0)) is not null then
        return true;
      end if;
    end loop;
  end loop;
  return false;
end $$;

select penstock._unroll($unroll$
-- Moves a bounded piece of what is left in a segment to the overflow segment. A row moves there at most once in its life, and
-- only out of segments that are nearly empty: a backlog stays where it is.
create or replace function penstock._clear_oldest(slot integer) returns void language plpgsql as $$
#variable_conflict use_column
declare
  piece constant integer := 1000;
  ring  text := pg_sequence_last_value('penstock.ring')::text;
  late  tid := penstock._late_block('lane_' || slot, 800);
begin
  --[ slot
  if (select count(*) from (select from penstock.lane_{slot} where ctid >= late and hold = 0 limit 4 * piece + 1) s) > 4 * piece
     or (select count(*) from (select from penstock.ready_{slot} limit 4 * piece + 1) s) > 4 * piece then
    return;
  end if;
  if strpos(split_part(ring, '9', 2), '0') = 0 then
    perform setval('penstock.ring', replace(ring, '9', '90')::bigint);
  end if;
  with gone as (
    delete from penstock.lane_{slot} where ctid = any (array(select ctid from penstock.lane_{slot} where hold = 0 limit piece for update skip locked))
    returning position, {envelope})
  insert into penstock.ready_0 select * from gone;
  with gone as (
    delete from penstock.held_{slot} where place = any (array(
      select place from penstock.held_{slot} where claimed_at < clock_timestamp() - interval '1 second' limit piece for update skip locked)) returning {leased})
  insert into penstock.leased_0 select * from gone;
  with gone as (
    delete from penstock.leased_{slot} where ctid = any (array(select ctid from penstock.leased_{slot} limit piece for update skip locked)) returning *)
  insert into penstock.leased_0 select * from gone;
  with gone as (
    delete from penstock.body_{slot} where ctid = any (array(select ctid from penstock.body_{slot} limit piece / 10 for update skip locked)) returning *)
  insert into penstock.body_0 select * from gone;
  --]
end $$;
$unroll$);
