-- Timers: due messages and expired leases become ready again. Claims do this in passing, so no background process is required.

-- A claim came back short by so many: it looks for due messages and expired leases. It moves no more than it will take
-- itself: the rest would stay out of everybody's reach until this transaction ends. A claim that found nothing at all also
-- runs the safety net, once a second at most. True if something turned up.
create or replace function penstock._look_again(q penstock.queue, wanted integer, has_some boolean) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  sweep_us constant bigint := pg_sequence_last_value(q.sweep_register);
begin
  return penstock._look_again(q.id, wanted, has_some, true,
    sweep_us & 1 = 1 and to_timestamp(sweep_us / 1e6) between clock_timestamp() and clock_timestamp() + interval '1 second');
end $$;

-- tends: not the first claim of a session, which leaves upkeep to others. quiet: no lease can have expired.
create or replace function penstock._look_again(queue_id integer, wanted integer, has_some boolean, tends boolean, quiet boolean) returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  started   timestamptz := clock_timestamp();
  due_after timestamptz;
  turned_up boolean;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return false;
  end if;
  -- Most claims that look find nothing: to ask first spares them the statements that move messages, and new sessions their
  -- planning. A table without blocks is not asked. The planner settings are the claim's.
  if pg_relation_size('penstock.scheduled', 'main') > bigint '0' then
    due_after := to_timestamp(pg_sequence_last_value('penstock.due_floor')::float8 / float8 '1e6');
    turned_up := exists (select from penstock.scheduled s where s.queue_id = _look_again.queue_id and s.due_at > due_after and s.due_at <= started);
  end if;
  if turned_up or not quiet and penstock._any_lease_ends(_look_again.queue_id, started, tends) then
    turned_up := penstock._run_timers(_look_again.queue_id, wanted) > 0;
  end if;
  if not has_some and turned_up is not true then
    if penstock._has_announced(_look_again.queue_id) then
      -- Messages of this transaction: a floor may have passed them, as nobody else can see them yet.
      select penstock._rescan(penstock._with_lanes(q), false) into turned_up from penstock.queue q where q.id = _look_again.queue_id;
    elsif tends and not quiet then
      select penstock._rescan(penstock._with_lanes(q), true) into turned_up from penstock.queue q
      -- Due, or further ahead than it is ever set.
      where q.id = _look_again.queue_id
        and abs(date_part('epoch', clock_timestamp()) * float8 '1e6' + float8 '1e6' - pg_sequence_last_value(q.rescan_register)::float8) >= float8 '1e6';
    end if;
  end if;
  return coalesce(turned_up, false);
end $$;

-- Has the time in a register come? A register is never set further ahead than ahead_us. One that is was set before the clock
-- was put back, and counts as not set.
create or replace function penstock._is_due(register regclass, now_us bigint, ahead_us bigint) returns boolean language sql volatile as $$
  select abs(2 * (now_us - pg_sequence_last_value(register)::float8) + ahead_us) >= ahead_us
$$;

-- What claims do in passing, each thing on its own clock: floors every 5 ms, upkeep, and the safety net.
create or replace function penstock._in_passing(q penstock.queue) returns void language plpgsql as $$
declare
  now_us bigint := date_part('epoch', clock_timestamp()) * 1e6;
  sweeps constant boolean := penstock._may_sweep();   -- before registers are set, which counts as writing
begin
  if penstock._is_due(q.sweep_register, now_us, 1000000) and sweeps then
    perform penstock._sweep(q, now_us);
    if penstock._is_due(q.rescan_register, now_us, 3000000) then
      perform penstock._rescan(q, true, sweeps => true);
    end if;
  end if;
  if penstock._is_due('penstock.tick_at', now_us, 1000000) then
    perform penstock._tick(now_us, sweeps);
  end if;
end $$;

-- Is this claim alone in its transaction? Our clients say so: see `Command.alone`.
create or replace function penstock._alone() returns boolean language sql stable as $$
  select coalesce(current_setting('penstock.alone', true) = 'on', false)
$$;

-- A sweep has to see what everybody has committed. An old snapshot does not show it. Nor does a transaction that has
-- written something: messages that it has claimed itself look gone to it, and come back if it is rolled back.
create or replace function penstock._may_sweep() returns boolean language sql volatile as $$
  select current_setting('transaction_isolation') = 'read committed' and (penstock._alone() or pg_current_xact_id_if_assigned() is null)
$$;

-- Is there upkeep to do? Each part has its own clock and its own budget. What needs no more than a register is done at
-- once; what moves messages or truncates is left to the moment of commit, by a row whose deferred trigger does it: a
-- claim may be the first act of a long transaction, and whatever that moved would be out of reach until its end.
create or replace function penstock._tick(now_us bigint, sweeps boolean) returns void language plpgsql as $$
declare
  due      boolean;
  spent_us bigint;
begin
  perform penstock._notice_step(now_us);
  perform setval('penstock.tick_at', now_us + 50000);
  if current_setting('transaction_isolation') <> 'read committed' then
    return;
  end if;
  due := penstock._timers_due();
  if sweeps and not due and pg_sequence_last_value('penstock.clock_was_at') = 0 then
    -- Polls look for due messages and expired leases from these floors on, over the entries of all that were settled in time.
    perform penstock._raise_timer_floor('penstock.due_floor', now_us - 1000000), penstock._raise_timer_floor('penstock.lease_floor', now_us - 1000000);
  end if;
  due := due or penstock._is_due('penstock.upkeep_at', now_us, 61000000) or pg_sequence_last_value('penstock.clock_was_at') > 0;
  if penstock._is_due('penstock.ring_check_at', now_us, 3000000) then
    perform setval('penstock.ring_check_at', now_us + 50000);
    now_us := date_part('epoch', clock_timestamp()) * 1e6;
    due := penstock._close_segments() or due;
    -- At most a twentieth of the time goes into looking, but for segments after a burst.
    spent_us := date_part('epoch', clock_timestamp()) * 1e6 - now_us;
    perform setval('penstock.ring_check_at', now_us + greatest(50000, least(2000000, 20 * spent_us)));
  end if;
  if due then
    perform penstock._announce('upkeep', 'upkeep', null);
  end if;
end $$;

-- The upkeep itself, at the commit of a claim. An error here must not undo the claim. An old snapshot is left alone: it may not
-- change what others have changed since.
create or replace function penstock._commit_upkeep() returns void language plpgsql as $$
declare
  now_us bigint := date_part('epoch', clock_timestamp()) * 1e6;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return;
  end if;
  perform penstock._redate();
  perform penstock._run_timers(null, 500);
  perform penstock._tend_ring();
  perform penstock._adopt_lanes();
  if penstock._is_due('penstock.upkeep_at', now_us, 61000000) then
    perform setval('penstock.upkeep_at', now_us + 60000000);
    perform penstock._upkeep();
  end if;
exception when others then
  raise log 'penstock upkeep: % (%)', sqlerrm, sqlstate;
end $$;

-- Moves up to piece messages that are due, and as many that ran out in each segment; for one queue, or for all. Returns
-- how many. Scans begin at the timers' floors; every half second (or up to a second, if it costs more than a
-- fiftieth of the time) those for all queues begin at the far left, for what a slow transaction left below.
create or replace function penstock._run_timers(only_queue integer, piece integer) returns integer language plpgsql as $$
declare
  started  timestamptz := clock_timestamp();
  now_us   bigint := date_part('epoch', started) * 1e6;
  rescan   boolean := only_queue is null and penstock._is_due('penstock.timer_rescan_at', now_us, 2000000);
  margin   constant bigint := 1000000;
  due      integer;
  returned integer := 0;
  complete boolean := true;
  slot     integer;
  ran_after timestamptz;
  l        penstock.leased_0;
  n        integer;
begin
  due := penstock._release_due(only_queue, case when rescan then '-infinity' else to_timestamp(pg_sequence_last_value('penstock.due_floor') / 1e6) end,
                               started, piece);
  if due < piece and only_queue is null then
    perform penstock._raise_timer_floor('penstock.due_floor', now_us - margin);
  end if;
  foreach slot in array penstock._used_slots() loop
    n := 0;
    ran_after := case when rescan then '-infinity' else to_timestamp(pg_sequence_last_value('penstock.lease_floor') / 1e6) end;
    for l in select * from penstock._pull_expired(slot, only_queue, ran_after, started, piece) loop
      perform penstock._give_back(l, 'the lease ran out', interval '0', false, 'skip');
      n := n + 1;
    end loop;
    returned := returned + n;
    complete := complete and n < piece;
    exit when only_queue is not null and due + returned >= piece;
  end loop;
  if complete and only_queue is null then
    perform penstock._raise_timer_floor('penstock.lease_floor', now_us - margin);
  end if;
  if rescan then
    perform penstock._rest_timers(started);
  end if;
  return due + returned;
end $$;

-- Raises due_floor or lease_floor, unless a transaction that was open for long is about to commit rows below it: see
-- 24_at_commit.sql. Nor does such a transaction raise them itself. A floor ahead of the clock is lowered.
create or replace function penstock._raise_timer_floor(floor regclass, to_us bigint) returns void language plpgsql as $$
begin
  if penstock._is_due(floor, to_us - 1, 2000000) and not penstock._is_long() then
    perform case when pg_try_advisory_lock(1885695609, 0) then setval(floor, to_us) + pg_advisory_unlock(1885695609, 0)::integer end;
  end if;
end $$;

create or replace function penstock._rest_timers(started timestamptz) returns void language sql as $$
  select setval('penstock.timer_rescan_at',
    (date_part('epoch', started) * 1e6 + least(1000000, greatest(500000, 50 * 1e6 * date_part('epoch', clock_timestamp() - started))))::bigint)
$$;

select penstock._for_each_segment($unroll$
-- Has a lease in this segment expired, of a queue or of any? Where a table has no blocks there is no need to plan a look at it.
-- Uses leased_N_until, grant_N_until.
create or replace function penstock._any_expired_{slot}(only_queue integer, after timestamptz, until timestamptz, grants_until timestamptz)
returns boolean language plpgsql as $$
#variable_conflict use_column
begin
  if pg_relation_size('penstock.leased_{slot}', 'main') > bigint '0' then
    if exists (select from penstock.leased_{slot} l where l.lease_until > after and l.lease_until <= until
               and (only_queue is null or l.queue_id = only_queue)) then
      return true;
    end if;
  end if;
  if pg_relation_size('penstock.grant_{slot}', 'main') > bigint '0' then
    return exists (select from penstock.grant_{slot} g where g.lease_until > after and g.lease_until <= grants_until
                   and (only_queue is null or g.queue_id = only_queue));
  end if;
  return false;
end $$;
$unroll$);

select penstock._unroll($unroll$
-- The same for all segments that may hold rows.
create or replace function penstock._any_expired(only_queue integer, after timestamptz, until timestamptz, grants_until timestamptz)
returns boolean language plpgsql as $$
declare
  slot integer;
begin
  foreach slot in array penstock._slots_by_age() loop
    -- The overflow segment is empty most of the time.
    continue when slot = 0 and pg_relation_size('penstock.leased_0', 'main') + pg_relation_size('penstock.grant_0', 'main') = bigint '0';
    --[ slot
    if penstock._any_expired_{slot}(only_queue, after, until, grants_until) then
      return true;
    end if;
    --]
  end loop;
  return false;
end $$;
$unroll$);

-- Has a lease of this queue expired? If none does before the next sweep, the lowest bit of the sweep register says so from then on,
-- and claims do not look until then: leases that begin meanwhile last a second at least. _forget_quiet clears the bit where a lease
-- gets an earlier end. Its lock, and the register as it was before we looked, tell that nobody has done so meanwhile.
create or replace function penstock._any_lease_ends(queue_id integer, started timestamptz, notes boolean) returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  after    constant timestamptz := to_timestamp(pg_sequence_last_value('penstock.lease_floor')::float8 / float8 '1e6');
  register regclass;
  sweep_us bigint;
  sweep_at timestamptz;
begin
  if notes then
    select q.sweep_register, pg_sequence_last_value(q.sweep_register) into register, sweep_us from penstock.queue q where q.id = _any_lease_ends.queue_id;
    sweep_at := to_timestamp(sweep_us::float8 / float8 '1e6');
    if sweep_at between started and started + interval '100 milliseconds'
       and not penstock._any_expired(_any_lease_ends.queue_id, after, sweep_at, sweep_at) then
      perform case when pg_try_advisory_lock(1885695610, queue_id) and pg_advisory_unlock(1885695610, queue_id)
                        and pg_sequence_last_value(register) = sweep_us then setval(register, sweep_us | bigint '1') end;
      return false;
    end if;
  end if;
  return penstock._any_expired(_any_lease_ends.queue_id, after, started, started);
end $$;

-- A lease of this queue ends so soon that the next claims have to look for it. Lock until the commit is visible: (1885695610, queue),
-- shared, for which nobody waits.
create or replace function penstock._forget_quiet(queue_id integer, until timestamptz) returns void language plpgsql as $$
begin
  if until < clock_timestamp() + interval '1 second' then
    perform pg_advisory_xact_lock_shared(1885695610, queue_id);
    perform setval(q.sweep_register, 0) from penstock.queue q where q.id = _forget_quiet.queue_id;
  end if;
end $$;

-- Is anything due, or has any lease expired? As _run_timers looks for it. Uses scheduled_due.
create or replace function penstock._timers_due() returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  started   timestamptz := clock_timestamp();
  rescan    boolean := penstock._is_due('penstock.timer_rescan_at', (date_part('epoch', started) * 1e6)::bigint, 2000000);
  due_after timestamptz := case when rescan then '-infinity' else to_timestamp(pg_sequence_last_value('penstock.due_floor') / 1e6) end;
  ran_after timestamptz := case when rescan then '-infinity' else to_timestamp(pg_sequence_last_value('penstock.lease_floor') / 1e6) end;
begin
  if exists (select from penstock.scheduled s where s.due_at > due_after and s.due_at <= started) then
    return true;
  end if;
  -- Most grants have nothing left to look for: half a second's are worth a look, one is not.
  if penstock._any_expired(null, ran_after, started, started - interval '500 milliseconds') then
    return true;
  end if;
  if rescan then
    perform penstock._rest_timers(started);
  end if;
  return false;
end $$;

select penstock._unroll($unroll$
-- Due messages, and the tickets of groups that are due, go to the end of their lanes. Uses scheduled_due.
create or replace function penstock._release_due(only_queue integer, after timestamptz, until timestamptz, piece integer)
returns integer language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  n     integer;
  lanes integer;
  slot  integer;
begin
  if not exists (select from penstock.scheduled s where s.due_at > after and s.due_at <= until
                 and (only_queue is null or s.queue_id = only_queue)) then
    return 0;
  end if;
  slot := penstock._hold_current();
  --[ slot
  with gone as (
    delete from penstock.scheduled where ctid = any (array(
      select s.ctid from penstock.scheduled s where s.due_at > after and s.due_at <= until and (only_queue is null or s.queue_id = only_queue)
      order by s.due_at limit piece for update skip locked)) returning *),
  put as (
    insert into penstock.lane_{slot} (position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt,
      max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error)
    select nextval('penstock.position'), g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority,
      g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error
    from (select * from gone order by due_at, id) g
    returning position, queue_id, priority),
  lane as (select p.queue_id, p.priority, min(p.position) as first, count(*) as n from put p group by p.queue_id, p.priority)
  select coalesce(sum(l.n), 0), count(penstock._announce_put(l.queue_id, l.priority,
    case when pg_sequence_last_value('penstock.ring') % 10 = {slot} then l.first else least(l.first, penstock._current_from()) end)::text)
  into n, lanes from lane l;
  --]
  if pg_sequence_last_value('penstock.position') >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
  return n;
end $$;

-- Takes leases that ran out from a segment; the caller gives the messages back. One whose key is held by somebody who has
-- not committed is left for the next time: who claims must not wait. A grant that holds nothing any more is forgotten.
-- Uses leased_N_until, grant_N_until, lane_N_order.
create or replace function penstock._pull_expired(slot integer, only_queue integer, after timestamptz, until timestamptz, piece integer)
returns setof penstock.leased_0 language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  n integer;
begin
  --[ slot
  return query delete from penstock.leased_{slot} where ctid = any (array(
    select l.ctid from penstock.leased_{slot} l
    where l.lease_until > after and l.lease_until <= until and (only_queue is null or l.queue_id = only_queue)
      and (l.key is null or penstock._try_key(l.queue_id, l.key, l.id))
    order by l.lease_until limit piece for update skip locked)) returning *;
  get diagnostics n = row_count;
  if n >= piece or not exists (select from penstock.grant_{slot} g where g.lease_until > after and g.lease_until <= until
                               and (only_queue is null or g.queue_id = only_queue)) then
    return;
  end if;
  -- Each grant is looked up by itself: a join of many with a lane that the planner takes for empty reads all of the lane for
  -- each of them, which took a second once.
  return query delete from penstock.held_{slot} where place = any (array(
    select t.place from penstock.grant_{slot} g cross join lateral (
      select r.ctid as place from penstock.lane_{slot} r
      where r.queue_id = g.queue_id and r.priority = g.priority and r.position between g.first_position and g.last_position
        and r.hold = g.hold and (r.key is null or penstock._try_key(r.queue_id, r.key, r.id))
      limit piece - n for update skip locked) t
    where g.lease_until > after and g.lease_until <= until and (only_queue is null or g.queue_id = only_queue)
    order by g.lease_until limit piece - n)) returning {leased};
  delete from penstock.grant_{slot} where ctid = any (array(
    select g.ctid from penstock.grant_{slot} g
    where g.lease_until > after and g.lease_until <= until and (only_queue is null or g.queue_id = only_queue)
      and (select count(*) from (select from penstock.lane_{slot} r where r.queue_id = g.queue_id and r.priority = g.priority
                                 and r.position between g.first_position and g.last_position and r.hold = g.hold limit 1) s) = 0
    order by g.lease_until limit 500 for update skip locked));
  --]
end $$;
$unroll$);

-- Locks a key on behalf of a message that comes back, without waiting for anybody. False: somebody holds the key, or the
-- older waiting message that would have to yield.
create or replace function penstock._try_key(queue_id integer, key text, id bigint) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  waiting bigint;
begin
  perform from penstock.message_key k where k.queue_id = _try_key.queue_id and k.key = _try_key.key for update skip locked;
  if not found and not penstock._try_new_key(_try_key.queue_id, _try_key.key, _try_key.id) then
    return false;
  end if;
  waiting := (penstock._waiting_with_key(_try_key.queue_id, _try_key.key)).id;
  return waiting is null or penstock._try_waiting(_try_key.queue_id, _try_key.key, waiting);
end $$;

-- The key's row is locked, or not there. Then we insert it; but somebody who has not committed may just have done so, and
-- only the attempt can tell. There is no "insert nowait": hence the timeout.
create or replace function penstock._try_new_key(queue_id integer, key text, id bigint) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  patience text := current_setting('lock_timeout');
begin
  if exists (select from penstock.message_key k where k.queue_id = _try_new_key.queue_id and k.key = _try_new_key.key) then
    return false;
  end if;
  perform set_config('lock_timeout', '1ms', true);
  insert into penstock.message_key (queue_id, key, id) values (_try_new_key.queue_id, _try_new_key.key, _try_new_key.id);
  perform set_config('lock_timeout', patience, true);
  return true;
exception when lock_not_available or unique_violation then
  return false;
end $$;
