-- Claims in general: in two steps, first taking rows under the lease, then looking at what they are. has_some: the caller has some
-- already, and wants so many more.
select penstock._unroll($unroll$
create or replace function penstock._claim_special(queue text, count integer, lease_seconds integer, worker text, has_some boolean)
returns setof penstock.lease language plpgsql as $$
#variable_conflict use_column
declare
  started    timestamptz := clock_timestamp();
  until      timestamptz;
  q          penstock.queue;
  lease_base bigint := penstock._lease_number();
  allowed    integer;
  wanted     integer;
  n          integer;
  live       text;
  used       integer[] := '{}';
  slot       integer;
begin
  if queue ^@ 'penstock.' then perform penstock._check_internal(queue); end if;
  if count not between 1 and 10000 or count is null then
    perform penstock._fail_value('count', count::text, 'a whole number from 1 to 10000');
  end if;
  perform penstock._check_lease(_claim_special.lease_seconds);
  select * into q from penstock.queue t where t.name = _claim_special.queue;
  if not found then
    return query select * from penstock._claim_dead(_claim_special.queue, count, _claim_special.lease_seconds, _claim_special.worker);
    return;
  end if;
  if q.paused then
    return;
  end if;
  if q.keep_history > 0 then
    lease_base := lease_base + 16;
  end if;
  until := started + make_interval(secs => coalesce(_claim_special.lease_seconds, q.lease_seconds));
  if pg_sequence_last_value(q.lanes_register) <> q.lane_bits then
    q := penstock._with_lanes(q);
    perform penstock._announce('upkeep', 'upkeep', null);   -- at commit, _adopt_lanes
  end if;
  perform penstock._in_passing(q);
  allowed := penstock._allowance(q, count);
  wanted := allowed;
  for round in 1 .. 2 loop
    exit when wanted = 0;
    live := split_part(pg_sequence_last_value('penstock.ring')::text, '9', 2);
    for lane in 1 .. cardinality(q.priorities) loop
      for i in 1 .. length(live) loop
        slot := substr(live, i, 1);
        loop
          n := penstock._take_special(slot, q, lane, wanted, lease_base + slot, until, _claim_special.worker);
          exit when n = 0;
          used := used || slot;
          -- What turned out to be an expired message or an empty group makes room for another.
          wanted := wanted - n + penstock._resolve(slot, lease_base + slot, until, _claim_special.worker);
          exit when wanted = 0;
        end loop;
        exit when wanted = 0;
      end loop;
      exit when wanted = 0;
    end loop;
    exit when wanted = 0 or round = 2 or not penstock._look_again(q, wanted, has_some or used <> '{}');
  end loop;
  if q.throughput_limit is not null and wanted > 0 then
    perform penstock._spend(q, -wanted);
  end if;
  if used <> '{}' and not penstock._alone() and penstock._in_block() then
    perform penstock._announce('leased ' || q.id, 'leased', q.id);
  end if;
  if used <@ array[slot] then
    --[ slot
    return query
    select l.id, l.token, q.name, case when l.body_slot is null then l.payload else penstock._body_json(l.body_slot, l.id) end,
      case when l.body_slot is null then l.payload_bytes else penstock._body_bytes(l.body_slot, l.id) end, l.headers, l.key,
      l.priority::integer, l.group_key, l.attempt::integer, l.max_attempts::integer, l.enqueued_at, l.lease_until, l.expires_at, l.last_error, null::text
    from penstock.leased_{slot} l where l.token = lease_base + {slot} order by l.priority desc, l.position;
    --]
    return;
  end if;
  return query
  select l.id, l.token, q.name, case when l.body_slot is null then l.payload else penstock._body_json(l.body_slot, l.id) end,
    case when l.body_slot is null then l.payload_bytes else penstock._body_bytes(l.body_slot, l.id) end, l.headers, l.key,
    l.priority::integer, l.group_key, l.attempt::integer, l.max_attempts::integer, l.enqueued_at, l.lease_until, l.expires_at, l.last_error, null::text
  from (
    select * from penstock.leased_0 where false
    --[
    union all select * from penstock.leased_{slot} l where l.token = lease_base + {slot}
    --]
  ) l order by l.priority desc, l.position;
end $$;

-- Moves the next rows of a lane in a segment to the leased ones; tickets too, as they are.
create or replace function penstock._take_special(slot integer, q penstock.queue, lane integer, wanted integer, lease_token bigint, until timestamptz, worker text)
returns integer language plpgsql as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  places  tid[] := penstock._pick(slot, q.id, q.priorities[lane], coalesce(pg_sequence_last_value(q.floors[lane]), 0), wanted, false,
    penstock._alone() or statement_timestamp() <= transaction_timestamp() + interval '10 microseconds');
  n       integer;
begin
  --[ slot
  with taken as (
    delete from penstock.lane_{slot} where ctid = any (places) returning *)
  insert into penstock.leased_{slot} (token, lease_until, position, watched, id, enqueued_at, expires_at, first_claimed_at, claimed_at,
    queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error)
  select lease_token, until, t.position, t.key is not null or q.max_in_flight is not null, t.id, t.enqueued_at, t.expires_at,
    coalesce(t.first_claimed_at, started), started, t.queue_id, t.priority, t.attempt + 1, t.max_attempts, t.body_slot, _take_special.worker, t.key,
    t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error
  from taken t;
  --]
  get diagnostics n = row_count;
  return n;
end $$;

-- Among the rows just taken: expired messages go to history, and each ticket is exchanged for the next message of its
-- group. Returns how many rows came to nothing.
create or replace function penstock._resolve(slot integer, lease_token bigint, until timestamptz, worker text) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  l       penstock.leased_0;
  head    penstock.grouped;
  nothing integer := 0;
begin
  --[ slot
  for l in select * from penstock.leased_{slot} t where t.token = lease_token
           and (t.expires_at <= started or t.group_key is not null and t.payload is null and t.payload_bytes is null and t.body_slot is null) loop
    delete from penstock.leased_{slot} t where t.token = lease_token and t.id = l.id and t.group_key is not distinct from l.group_key;
    if l.group_key is null then
      l.attempt := l.attempt - 1;
      perform penstock._finish(penstock._envelope(l), 'expired', null);
      nothing := nothing + 1;
    else
      head := penstock._next_of_group(l.queue_id, l.group_key, l.id);
      if head.id is null then
        perform penstock._issue_ticket(l.queue_id, l.group_key, l.id, true);
        nothing := nothing + 1;
      else
        insert into penstock.leased_{slot} (token, lease_until, position, watched, id, enqueued_at, expires_at, first_claimed_at, claimed_at,
          queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error)
        values (lease_token, until, head.position, l.watched or head.key is not null, head.id, head.enqueued_at, head.expires_at,
          coalesce(head.first_claimed_at, started), started, head.queue_id, head.priority, head.attempt + 1, head.max_attempts, head.body_slot,
          _resolve.worker, head.key, head.group_key, head.headers, head.payload, head.payload_bytes, head.last_error);
      end if;
    end if;
  end loop;
  --]
  return nothing;
end $$;
$unroll$);

-- Takes the next visible message of a group whose ticket we hold; what has expired goes to history on the way. Nothing,
-- if somebody holds that message: to skip it would break the order, and strand it behind the ticket.
create or replace function penstock._next_of_group(queue_id integer, group_key text, after bigint) returns penstock.grouped language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  head    penstock.grouped;
begin
  loop
    select * into head from penstock.grouped g
    where g.queue_id = _next_of_group.queue_id and g.group_key = _next_of_group.group_key and g.position > after
    order by g.position limit 1;
    if head.id is null or head.visible_at > started and coalesce(head.expires_at > started, true) then
      return null;
    end if;
    delete from penstock.grouped where ctid = any (array(
      select g.ctid from penstock.grouped g where g.id = head.id for update skip locked)) returning * into head;
    if not found then
      return null;
    end if;
    exit when head.expires_at > started or head.expires_at is null;
    perform penstock._finish(penstock._envelope(head), 'expired', null);
  end loop;
  return head;
end $$;

create or replace function penstock._check_lease(lease_seconds integer) returns void language plpgsql as $$
begin
  if lease_seconds not between 1 and 43200 then
    perform penstock._fail_value('lease_seconds', lease_seconds::text, 'a whole number from 1 to 43200');
  end if;
end $$;

-- How many of the messages wanted the limits of the queue allow, with the tokens of throughput_limit spent.
create or replace function penstock._allowance(q penstock.queue, wanted integer) returns integer language plpgsql as $$
declare
  patience timestamptz := clock_timestamp() + interval '50 milliseconds';
begin
  if q.max_in_flight is not null then
    -- Exact among many: claims of such a queue take turns until commit. Somebody in a long transaction must not hold
    -- the others up, so they wait only so long, and then get nothing.
    while not pg_try_advisory_xact_lock(1885695605, q.id) loop
      if clock_timestamp() not between patience - interval '50 milliseconds' and patience then   -- or the clock was put back
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

-- A bucket of one second's worth of tokens, and of no less than 1.05: a claim that is up to 50 ms late for the only token
-- does not delay the next one. The register holds when it is full again, in microseconds: a number in
-- place of a row that every claim would update. A negative number gives tokens back.
create or replace function penstock._spend(q penstock.queue, wanted integer) returns integer language plpgsql as $$
declare
  cost_us  double precision := 1e6 / q.throughput_limit;
  now_us   bigint;
  full_us  bigint;
begin
  perform pg_advisory_lock(1885695606, q.id);
  begin
    now_us := date_part('epoch', clock_timestamp()) * 1e6;
    full_us := greatest(pg_sequence_last_value(q.throughput_register), now_us);
    wanted := least(wanted, floor((greatest(1e6, 1.05 * cost_us) - (full_us - now_us)) / cost_us)::integer);
    perform setval(q.throughput_register, greatest(0, full_us + round(wanted * cost_us)::bigint));
  exception when query_canceled or others then
    perform pg_advisory_unlock(1885695606, q.id);
    raise;
  end;
  perform pg_advisory_unlock(1885695606, q.id);
  return wanted;
end $$;

select penstock._unroll($unroll$
-- The live leases of a queue with max_in_flight. Uses leased_N_watched.
create or replace function penstock._in_flight(queue_id integer) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  n       bigint := 0;
begin
  --[
  n := n + (select count(*) from penstock.leased_{slot} l where l.queue_id = _in_flight.queue_id and l.watched and l.lease_until > started and l.dead_at is null);
  --]
  return n;
end $$;

-- Dead letters whose leases ran out are dead letters again, as far as a claim of them needs. Uses leased_N_until.
create or replace function penstock._bury_again(queue_id integer, until timestamptz, piece integer) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  --[
  with gone as (
    delete from penstock.leased_{slot} where ctid = any (array(
      select l.ctid from penstock.leased_{slot} l
      where l.lease_until <= until and l.queue_id = _bury_again.queue_id and l.dead_at is not null
      order by l.lease_until limit piece for update skip locked)) returning *)
  insert into penstock.dead
  select g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority, g.attempt, g.max_attempts,
    g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, 'the lease ran out' from gone g;
  --]
end $$;

-- Claims dead letters, from '<queue>.dlq'.
create or replace function penstock._claim_dead(dlq text, count integer, lease_seconds integer, worker text) returns setof penstock.lease
language plpgsql as $$
#variable_conflict use_column
declare
  started    timestamptz := clock_timestamp();
  lease_base bigint := penstock._lease_number();
  q          penstock.queue;
  slot integer;
begin
  select * into q from penstock.queue t where t.name || '.dlq' = dlq;
  if not found then
    perform penstock._fail_unknown_queue(dlq);
  end if;
  lease_base := lease_base + case when q.keep_history > 0 then 16 else 0 end;
  perform penstock._bury_again(q.id, started, count);
  slot := penstock._hold_current();
  --[ slot
  return query
  with taken as (
    delete from penstock.dead where id = any (array(
      select d.id from penstock.dead d where d.queue_id = q.id order by d.id limit count for update skip locked)) returning *)
  insert into penstock.leased_{slot} as l (token, lease_until, position, watched, id, enqueued_at, first_claimed_at, claimed_at, dead_at,
    queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, last_error)
  select lease_base + {slot}, started + make_interval(secs => coalesce(_claim_dead.lease_seconds, q.lease_seconds)), t.id, false, t.id, t.enqueued_at,
    t.first_claimed_at, started, t.dead_at, t.queue_id, t.priority, least(t.attempt + 1, 32767), t.max_attempts, t.body_slot, _claim_dead.worker, t.key,
    t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error
  from taken t order by t.id
  returning l.id, l.token, dlq, case when l.body_slot is null then l.payload else penstock._body_json(l.body_slot, l.id) end,
    case when l.body_slot is null then l.payload_bytes else penstock._body_bytes(l.body_slot, l.id) end, l.headers, l.key,
    l.priority::integer, l.group_key, l.attempt::integer, l.max_attempts::integer, l.enqueued_at, l.lease_until, l.expires_at, l.last_error, q.name;
  --]
end $$;
$unroll$);
