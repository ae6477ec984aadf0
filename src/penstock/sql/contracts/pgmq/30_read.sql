-- Reading is a claim by id. read_ct is the attempt, and vt is the end of the lease. Locks and indexes: as
-- penstock._claim_by_id.

-- Messages have no limit of attempts if max_attempts of the queue is 100, the maximum, which pgmq.create sets. With a
-- lower value, a message is dead after its last attempt. The count ends at 32,767 reads, because it is stored in two
-- bytes. Returns the attempt. Locks: the leased row. Uses leased_N_token.
create or replace function pgmq._lift_limit(id bigint, token bigint, attempt integer) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer := {token.segment(_lift_limit.token)};
begin
  --: branch on slot
  update penstock.leased_{slot} l set max_attempts = {limit.attempt}
  where l.token = _lift_limit.token and l.id = _lift_limit.id;
  --: end
  return _lift_limit.attempt;
end $$;

-- Reads up to qty messages, which are not visible to other readers for vt seconds. The usual case is one claim. Locks
-- and indexes: as penstock._claim_by_id.
create or replace function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- This is outside the query, because an expression that is evaluated once would make PostgreSQL plan the query at
  -- every call.
  held constant interval := make_interval(secs => read.vt);
begin
  if read.vt between 1 and {limit.lease_seconds} and qty between 1 and {limit.messages}
    and (conditional = '{}' or conditional is null) then
    return query
    select l.id, case when l.attempt >= 100 and l.max_attempts = 100 then pgmq._lift_limit(l.id, l.token, l.attempt)
      else l.attempt end, l.enqueued_at, l.lease_until - held, l.lease_until,
      case when l.payload is null then to_jsonb(encode(l.payload_bytes, 'base64')) else l.payload end, l.headers
    from penstock._claim_by_id(lower(queue_name), qty, read.vt) l;
  else
    return query select * from pgmq._read_special(queue_name, read.vt, qty, conditional);
  end if;
end $$;

-- Reads with a condition, with a vt that is longer than a lease or zero, or with more messages than one claim returns.
-- Reads the whole queue if there is a condition. Locks: the messages that it claims. Indexes: as _take and
-- _claim_by_id.
create or replace function pgmq._read_special(queue_name text, vt integer, qty integer, conditional jsonb)
returns setof pgmq.message_record language plpgsql as $$
declare
  q         penstock.queue := pgmq._queue(queue_name);
  left_over integer := coalesce(qty, 2147483647);
  ids       bigint[];
begin
  if _read_special.vt is null then
    perform penstock._fail_value('vt', null, 'a number of seconds');
  elsif qty < 0 then
    perform penstock._fail_value('qty', qty::text, '0 or more, or null for all messages');
  elsif conditional <> '{}' then
    perform penstock._run_timers(q.id, 10000);
    ids := array(select c.id from pgmq._visible(q.id) c where c.message @> conditional order by c.id);
    return query select * from pgmq._take(q, ids, _read_special.vt, left_over);
    return;
  end if;
  while left_over > 0 loop
    ids := array(select c.id from penstock._claim_by_id(q.name, least(left_over, {limit.messages}),
      greatest(1, least(_read_special.vt, {limit.lease_seconds}))) c);
    exit when cardinality(ids) = 0;
    return query select * from pgmq._hold(q, ids, _read_special.vt);
    left_over := left_over - cardinality(ids);
    -- Messages that are visible again at once would be read forever.
    exit when _read_special.vt <= 0;
  end loop;
end $$;

-- Sets the end of the lease for messages that were just claimed by id. Uses leased_N_token. Locks: the rows of the
-- messages.
create or replace function pgmq._hold(q penstock.queue, ids bigint[], vt integer) returns setof pgmq.message_record
language plpgsql as $$
declare
  until timestamptz := clock_timestamp() + make_interval(secs => _hold.vt);
  l     penstock.leased_0;
begin
  for l in select * from penstock._held_by_id(q.id, ids) h order by h.id loop
    if l.attempt >= 100 and l.max_attempts = 100 then
      perform pgmq._lift_limit(l.id, l.token, l.attempt);
    end if;
    l.lease_until := until;
    return next pgmq._record(l);
    if _hold.vt <= 0 then
      perform penstock._unclaim(l.token, array[l.id], true);
    elsif _hold.vt > {limit.lease_seconds} then
      perform penstock._amend_by_id(q.id, l.id, null, until, null);
    end if;
  end loop;
end $$;

-- Claims messages by their ids, in their order, up to the wanted number. Messages that another consumer has are
-- skipped. Uses lane_N_order, scheduled_id and leased_N_id. Locks: the messages that it claims, with SKIP LOCKED, and
-- the throughput lock as _spend.
create or replace function pgmq._take(q penstock.queue, ids bigint[], vt integer, wanted integer)
returns setof pgmq.message_record language plpgsql as $$
declare
  n  integer := 0;
  id bigint;
  r  pgmq.message_record;
begin
  if q.paused or wanted <= 0 then
    return;
  end if;
  wanted := penstock._allowance(q, wanted);
  foreach id in array ids loop
    exit when n >= wanted;
    r := pgmq._take_one(q, id, _take.vt);
    if r.msg_id is not null then
      n := n + 1;
      return next r;
    end if;
  end loop;
  if q.throughput_limit is not null and n < wanted then
    perform penstock._spend(q, n - wanted);
  end if;
end $$;

-- Claims one message by its id. Returns null if it is not waiting, or if another transaction has locked it. Locks: the
-- row of the message, with SKIP LOCKED. Uses lane_N_order, scheduled_id and leased_N_id.
create or replace function pgmq._take_one(q penstock.queue, id bigint, vt integer) returns pgmq.message_record
language plpgsql as $$
declare
  m penstock.envelope := penstock._pull_waiting(q.id, id);
begin
  if m.id is null then
    return null;
  end if;
  if m.attempt >= 99 and m.max_attempts = 100 then
    m.max_attempts := {limit.attempt};
  end if;
  perform penstock._lease_by_id(m, clock_timestamp() + make_interval(secs => greatest(_take_one.vt, 1)), null);
  return (select h from pgmq._hold(q, array[_take_one.id], _take_one.vt) h);
end $$;

-- Returns the readable messages of a queue with their contents. Locks: ACCESS SHARE. Reads the whole queue.
create or replace function pgmq._visible(queue_id integer) returns table (id bigint, message jsonb) language plpgsql
  as $$
#variable_conflict use_column
begin
  --: for each segment
  return query select r.id, pgmq._message(r.body_slot, r.id, r.payload, r.payload_bytes) from penstock.ready_{slot} r
  where r.queue_id = _visible.queue_id and r.group_key is null and coalesce(r.expires_at > clock_timestamp(), true);
  --: end
end $$;

-- Reads, and tries again until it gets a message or max_poll_seconds have passed. Locks and indexes: as read.
create or replace function pgmq.read_with_poll(
  queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100,
    conditional jsonb default '{}')
returns setof pgmq.message_record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  stop_at timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
  -- A clock that is put back during the poll ends the poll too.
  while clock_timestamp() between stop_at - make_interval(secs => max_poll_seconds) and stop_at loop
    return query select * from pgmq.read(queue_name, read_with_poll.vt, qty, conditional);
    exit when found;
    perform pg_sleep(poll_interval_ms / 1000.0);
  end loop;
end $$;
