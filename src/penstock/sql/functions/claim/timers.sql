-- Timers: due messages and expired leases become ready again. Claims do this, so no background process is required.
--
-- _run_timers moves up to piece due messages, and as many expired leases in each segment; for one queue, or for all.
-- Returns how many. Scans begin at the floors of the timers. Every half second (or up to a second, if it costs more
-- than a fiftieth of the time) the scans for all queues begin at the far left, to find messages that a slow transaction
-- has left below the floors.
-- Locks: the rows it moves, with SKIP LOCKED. Uses scheduled_due, leased_N_until and grant_N_until.
create or replace function penstock._run_timers(only_queue integer, piece integer) returns integer language plpgsql
  as $$
declare
  started  timestamptz := clock_timestamp();
  now_us   bigint := date_part('epoch', started) * 1e6;
  rescan   boolean := only_queue is null
    and penstock._is_due('penstock.timer_rescan_at', now_us, {timing.timers_ahead});
  margin   constant bigint := {timing.timer_margin};
  due      integer;
  returned integer := 0;
  complete boolean := true;
  slot     integer;
  ran_after timestamptz;
  l        penstock.leased_0;
  n        integer;
begin
  due := penstock._release_due(only_queue, case when rescan then '-infinity'
    else to_timestamp({register.value('penstock.due_floor')} / 1e6) end,
                               started, piece);
  if due < piece and only_queue is null then
    perform penstock._raise_timer_floor('penstock.due_floor', now_us - margin);
  end if;
  foreach slot in array penstock._used_slots() loop
    n := 0;
    ran_after := case when rescan then '-infinity'
      else to_timestamp({register.value('penstock.lease_floor')} / 1e6) end;
    for l in select * from penstock._pull_expired(slot, only_queue, ran_after, started, piece) loop
      perform penstock._give_back(l, 'the lease expired', interval '0', false, 'skip');
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
-- background/commit_timers.sql. Such a transaction does not raise them either. A floor ahead of the clock is lowered.
-- Locks: the commit lock of the timers, without waiting, while it sets the floor. Indexes: none.
create or replace function penstock._raise_timer_floor(floor regclass, to_us bigint) returns void language plpgsql as $$
begin
  if penstock._is_due(floor, to_us - 1, {timing.timers_ahead}) and not penstock._is_long() then
    perform case when pg_try_advisory_lock({lock.timers}, 0)
      then setval(floor, to_us) + pg_advisory_unlock({lock.timers}, 0)::integer end;
  end if;
end $$;

-- Sets when the next scan from the far left may begin. Locks: none. It sets a register. Indexes: none.
create or replace function penstock._rest_timers(started timestamptz) returns void language sql as $$
  select setval('penstock.timer_rescan_at',
    (date_part('epoch', started) * 1e6 + least({timing.longest_timer_rest},
      greatest({timing.least_timer_rest}, 50 * 1e6 * date_part('epoch', clock_timestamp() - started))))::bigint)
$$;

-- Is a message due, or has a lease expired? Looks where _run_timers would look. Uses scheduled_due. Locks: ACCESS
-- SHARE.
create or replace function penstock._timers_due() returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  started   timestamptz := clock_timestamp();
  rescan    boolean := penstock._is_due('penstock.timer_rescan_at', (date_part('epoch', started) * 1e6)::bigint,
    {timing.timers_ahead});
  due_after timestamptz := case when rescan then '-infinity'
    else to_timestamp({register.value('penstock.due_floor')} / 1e6) end;
  ran_after timestamptz := case when rescan then '-infinity'
    else to_timestamp({register.value('penstock.lease_floor')} / 1e6) end;
begin
  if exists (select from penstock.scheduled s where s.due_at > due_after and s.due_at <= started) then
    return true;
  end if;
  -- Most grants have no leased messages left: it is worth looking at those of half a second, not at one.
  if penstock._any_expired(null, ran_after, started, started - interval '500 milliseconds') then
    return true;
  end if;
  if rescan then
    perform penstock._rest_timers(started);
  end if;
  return false;
end $$;
