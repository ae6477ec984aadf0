-- Timers: messages that are due, and leases that ran out, become ready again. Done in passing by claims; nothing has
-- to run for it.

-- Is this a good moment for work on behalf of others? Not deep in somebody's transaction, where what we move would stay
-- out of reach until it ends; and not under an old snapshot, which proves nothing.
create or replace function penstock._may_tend() returns boolean language sql as $$
  select current_setting('transaction_isolation') = 'read committed' and clock_timestamp() - now() < interval '2 milliseconds'
$$;

-- A claim came back short: look for what is due, what ran out, and what a floor may hide. True if something turned up.
create or replace function penstock._look_again(q penstock.queue) returns boolean language plpgsql as $$
declare
  turned_up boolean;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return false;
  end if;
  turned_up := penstock._run_timers(case when penstock._may_tend() then null else q.id end) > 0;
  if date_part('epoch', clock_timestamp()) * 1e6 >= pg_sequence_last_value(q.rescan_register) then
    turned_up := penstock._rescan(q) or turned_up;
  end if;
  return turned_up;
end $$;

-- The upkeep that claims do in passing, each part on its own clock and within its own budget.
create or replace function penstock._tick(now_us bigint) returns void language plpgsql as $$
declare
  spent_us bigint;
begin
  perform setval('penstock.tick_at', now_us + 20000);
  if not penstock._may_tend() then
    return;
  end if;
  perform penstock._run_timers(null);
  if now_us >= pg_sequence_last_value('penstock.ring_check_at') then
    perform setval('penstock.ring_check_at', now_us + 50000);
    perform penstock._tend_ring();
    spent_us := date_part('epoch', clock_timestamp()) * 1e6 - now_us;
    perform setval('penstock.ring_check_at', now_us + greatest(50000, 20 * spent_us));
  end if;
  if now_us >= pg_sequence_last_value('penstock.upkeep_at') then
    perform setval('penstock.upkeep_at', now_us + 60000000);
    perform penstock._upkeep();
  end if;
end $$;

-- Moves a bounded piece of what is due and of what ran out; for one queue, or for all. Returns how many.
-- Scans begin at the timers' floors; every half second (or more, if it costs more than a fiftieth of the time) they
-- begin at the far left, for what a slow transaction left below.
create or replace function penstock._run_timers(only_queue integer) returns integer language plpgsql as $$
declare
  started  timestamptz := clock_timestamp();
  now_us   bigint := date_part('epoch', started) * 1e6;
  rescan   boolean := now_us >= pg_sequence_last_value('penstock.timer_rescan_at');
  piece    constant integer := 500;
  margin   constant bigint := 1000000;
  due      integer;
  returned integer := 0;
  complete boolean := true;
  slot     integer;
  l        penstock.leased_0;
  n        integer;
begin
  due := penstock._release_due(only_queue, case when rescan then '-infinity' else to_timestamp(pg_sequence_last_value('penstock.due_floor') / 1e6) end,
                               started, piece);
  if due < piece and only_queue is null and now_us - margin > pg_sequence_last_value('penstock.due_floor') then
    perform setval('penstock.due_floor', now_us - margin);
  end if;
  foreach slot in array penstock._used_slots() loop
    n := 0;
    for l in select * from penstock._pull_expired(slot, only_queue,
        case when rescan then '-infinity' else to_timestamp(pg_sequence_last_value('penstock.lease_floor') / 1e6) end, started, piece) loop
      perform penstock._give_back(l, 'the lease ran out', interval '0', false, 'skip');
      n := n + 1;
    end loop;
    returned := returned + n;
    complete := complete and n < piece;
  end loop;
  if complete and only_queue is null and now_us - margin > pg_sequence_last_value('penstock.lease_floor') then
    perform setval('penstock.lease_floor', now_us - margin);
  end if;
  if rescan then
    perform setval('penstock.timer_rescan_at',
      now_us + greatest(500000, (50 * 1e6 * date_part('epoch', clock_timestamp() - started))::bigint));
  end if;
  return due + returned;
end $$;

select penstock._unroll($unroll$
-- Due messages, and the tickets of groups that are due, go to the end of their lanes. Uses scheduled_due.
create or replace function penstock._release_due(only_queue integer, after timestamptz, until timestamptz, piece integer)
returns integer language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  n integer;
  slot integer;
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
        order by s.due_at limit piece for update skip locked)) returning *)
    insert into penstock.ready_{slot} (position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, attempt,
      max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error)
    select nextval('penstock.position'), g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority,
      g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error
    from (select * from gone order by due_at, id) g;
  --]
  get diagnostics n = row_count;
  if pg_sequence_last_value('penstock.position') >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
  return n;
end $$;

-- Takes leases that ran out from a segment; the caller gives the messages back. One whose key is held by an enqueuer
-- who has not committed is left for the next time: who claims must not wait. Uses leased_N_until.
create or replace function penstock._pull_expired(slot integer, only_queue integer, after timestamptz, until timestamptz, piece integer)
returns setof penstock.leased_0 language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
  --[ slot
      return query delete from penstock.leased_{slot} where ctid = any (array(
      select l.ctid from penstock.leased_{slot} l
      where l.lease_until > after and l.lease_until <= until and (only_queue is null or l.queue_id = only_queue)
        and (l.key is null or penstock._try_key(l.queue_id, l.key))
      order by l.lease_until limit piece for update skip locked)) returning *;
  --]
end $$;
$unroll$);

-- Locks a key if nobody holds it.
create or replace function penstock._try_key(queue_id integer, key text) returns boolean language plpgsql as $$
#variable_conflict use_column
begin
  perform from penstock.message_key k where k.queue_id = _try_key.queue_id and k.key = _try_key.key for update skip locked;
  return found or not exists (select from penstock.message_key k where k.queue_id = _try_key.queue_id and k.key = _try_key.key);
end $$;
