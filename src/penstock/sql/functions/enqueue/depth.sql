-- max_depth, exact under concurrency, and without waiting for other producers while the limit is far away.
-- depth_register is an upper bound of the depth: the depth when it was last counted, plus every message admitted since.
-- Messages are admitted while the bound is at or below max_depth. Each transaction says how many messages it was
-- admitted by a shared advisory lock whose key contains that number (layout/lock.sql).
--
-- Once the bound is above the limit, an enqueue counts: the messages that it sees, and from those locks the messages of
-- open transactions, which it does not see. If only open transactions fill the queue, it waits for up to two seconds
-- for them to end. It polls, so it cannot take part in a deadlock.
-- Locks: the depth lock of the queue, shared for the moment of an admission, exclusive for the time of a count; the
-- reservation, shared, until commit. Uses lane_N_order, scheduled_queue and grouped_order through _depth.
create or replace function penstock._reserve_depth(q penstock.queue, n integer) returns void language plpgsql as $$
declare
  patience timestamptz := clock_timestamp() + interval '2 seconds';
  answer   text := penstock._reserve_below_bound(q, n);
begin
  while answer <> 'admitted' loop
    answer := penstock._count_depth(q, n);
    -- or the clock was set back
    if answer = 'full' or answer = 'busy' and clock_timestamp() not between patience - interval '2 seconds' and patience
      then
      perform penstock._fail_full(q.name, q.max_depth);
    elsif answer = 'busy' then
      perform pg_sleep(0.001);
    end if;
  end loop;
end $$;

-- Admits messages while the bound allows it. Returns admitted, or unknown. Locks: the depth lock of the queue, shared,
-- while it adds to the register, and a reservation until commit. A count takes the lock alone, so it sees the number
-- and the reservation, or neither. Indexes: none.
create or replace function penstock._reserve_below_bound(q penstock.queue, n integer) returns text language plpgsql
  as $$
declare
  locked boolean := false;
  answer text := 'unknown';
begin
  begin
    locked := pg_advisory_lock_shared({lock.depth}, q.id) is not null;
    if (select max(nextval(q.depth_register)) from generate_series(1, n)) <= q.max_depth then
      perform penstock._note_reservation(q.id, n);
      answer := 'admitted';
    end if;
  exception when query_canceled or others then
    if locked then
      perform pg_advisory_unlock_shared({lock.depth}, q.id);
    end if;
    raise;
  end;
  perform pg_advisory_unlock_shared({lock.depth}, q.id);
  return answer;
end $$;

-- Counts a queue whose bound was reached. Returns admitted, full, or busy if open transactions decide it. The locks are
-- read before the messages are counted: a transaction that commits in between is counted twice, never missed.
create or replace function penstock._count_depth(q penstock.queue, n integer) returns text language plpgsql as $$
declare
  locked   boolean := false;
  reserved bigint;
  depth    bigint;
  answer   text;
begin
  begin
    locked := pg_advisory_lock({lock.depth}, q.id) is not null;
    reserved := penstock._reserved_by_others(q.id);
    depth := penstock._depth(q.id, q.max_depth) + n;
    if depth > q.max_depth then
      answer := 'full';
    elsif depth + reserved > q.max_depth then
      answer := 'busy';
    else
      perform setval(q.depth_register, depth + reserved), penstock._note_reservation(q.id, n);
      answer := 'admitted';
    end if;
  exception when query_canceled or others then
    if locked then
      perform pg_advisory_unlock({lock.depth}, q.id);
    end if;
    raise;
  end;
  perform pg_advisory_unlock({lock.depth}, q.id);
  return answer;
end $$;

-- Counts the waiting and leased messages of a queue up to a little more than at_most. STABLE: with one snapshot, in
-- which a message that moves from table to table is in exactly one of them. Locks: ACCESS SHARE. Uses scheduled_queue,
-- grouped_order and lane_N_order, and scans leased_N.
create or replace function penstock._depth(queue_id integer, at_most bigint) returns bigint
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  n bigint := 0;
begin
  select count(*) into n from (select from penstock.scheduled s where s.queue_id = _depth.queue_id
    and s.group_key is null limit at_most + 1) c;
  n := n + (select count(*) from (select from penstock.grouped g where g.queue_id = _depth.queue_id
    limit at_most + 1) c);
  --: for each segment
  if n <= at_most then
    n := n + (select count(*) from (select from penstock.lane_{slot} r where r.queue_id = _depth.queue_id
      and r.group_key is null limit at_most + 1) c)
           + (select count(*) from penstock.leased_{slot} l where l.queue_id = _depth.queue_id and l.dead_at is null);
  end if;
  --: end
  return n;
end $$;
