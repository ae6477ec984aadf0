-- Limits of a queue. _allowance returns how many of the wanted messages max_in_flight and throughput_limit allow, and
-- spends the tokens of throughput_limit.
-- Locks: with max_in_flight, the lock of the queue until commit, waiting for up to 50 ms; with throughput_limit, the
-- lock of its register for a moment. Uses leased_N_watched.
create or replace function penstock._allowance(q penstock.queue, wanted integer) returns integer language plpgsql as $$
declare
  patience timestamptz := clock_timestamp() + interval '50 milliseconds';
begin
  if q.max_in_flight is not null then
    -- Exact under concurrency: claims of such a queue take turns until commit. A long transaction must not block the
    -- others, so they wait for 50 ms and then get nothing.
    while not pg_try_advisory_xact_lock({lock.in_flight}, q.id) loop
      -- or the clock was set back
      if clock_timestamp() not between patience - interval '50 milliseconds' and patience then
        return 0;
      end if;
      perform pg_sleep(0.001);
    end loop;
    wanted := least(wanted, q.max_in_flight - penstock._in_flight(q.id));
  end if;
  if wanted > 0 and q.throughput_limit is not null then
    wanted := penstock._spend(q, wanted);
  end if;
  return greatest(wanted, 0);
end $$;

-- Spends tokens of throughput_limit. The bucket holds the tokens of one second, and at least 1.05: a claim that is up
-- to 50 ms late for the only token does not delay the next one. The register holds when the bucket is full again, in
-- microseconds: a number instead of a row that every claim would update. A negative number gives tokens back. Locks:
-- the throughput lock of the queue, for which it waits, until the register is set. So two claims cannot spend the same
-- tokens. Indexes: none.
create or replace function penstock._spend(q penstock.queue, wanted integer) returns integer language plpgsql as $$
declare
  cost_us  double precision := 1e6 / q.throughput_limit;
  now_us   bigint;
  full_us  bigint;
begin
  perform pg_advisory_lock({lock.throughput}, q.id);
  begin
    now_us := date_part('epoch', clock_timestamp()) * 1e6;
    full_us := greatest(pg_sequence_last_value(q.throughput_register), now_us);
    wanted := least(wanted, floor((greatest(1e6, 1.05 * cost_us) - (full_us - now_us)) / cost_us)::integer);
    perform setval(q.throughput_register, greatest(0, full_us + round(wanted * cost_us)::bigint));
  exception when query_canceled or others then
    perform pg_advisory_unlock({lock.throughput}, q.id);
    raise;
  end;
  perform pg_advisory_unlock({lock.throughput}, q.id);
  return wanted;
end $$;

-- The live leases of a queue with max_in_flight. Uses leased_N_watched. Locks: ACCESS SHARE.
create or replace function penstock._in_flight(queue_id integer) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  n       bigint := 0;
begin
  --: for each segment
  n := n + (select count(*) from penstock.leased_{slot} l where l.queue_id = _in_flight.queue_id and l.watched
    and l.lease_until > started and l.dead_at is null);
  --: end
  return n;
end $$;

-- From now on the leases of this queue are counted: marks the existing leases as watched. Locks: the rows that it
-- changes. Scans lane_N and leased_N, once for each queue that gets a limit.
create or replace function penstock._watch_leases(queue_id integer) returns void language plpgsql as $$
#variable_conflict use_column
begin
  --: for each segment
  with gone as (delete from penstock.held_{slot} where queue_id = _watch_leases.queue_id returning {leased})
  insert into penstock.leased_{slot} select * from gone;
  update penstock.leased_{slot} set watched = true where queue_id = _watch_leases.queue_id and not watched;
  --: end
end $$;
