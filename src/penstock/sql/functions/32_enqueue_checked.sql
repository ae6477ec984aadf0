-- Enqueue with everything looked at: what is wrong is named, and keys, groups, delays, limits and large payloads are
-- dealt with.
create or replace function penstock._enqueue_checked(
  queue text, payload jsonb, payload_bytes bytea, headers jsonb, key text, priority integer, group_key text, delay interval,
  visible_at timestamptz, ttl interval, max_attempts integer, on_conflict text, unique_while text)
returns bigint language plpgsql as $$
declare
  q   penstock.queue;
  m   penstock.envelope;
  due timestamptz;
begin
  select * into q from penstock.queue t where t.name = _enqueue_checked.queue;
  if not found then
    perform penstock._check_name(_enqueue_checked.queue);
    perform penstock._fail_unknown_queue(_enqueue_checked.queue);
  end if;
  perform penstock._check_message(q, payload, payload_bytes, headers, key, priority, group_key, delay, visible_at, ttl, max_attempts);
  if on_conflict not in ('replace', 'skip', 'error') or on_conflict is null then
    perform penstock._fail_value('on_conflict', on_conflict, 'replace, skip or error');
  end if;
  if unique_while not in ('waiting', 'unfinished') or unique_while is null then
    perform penstock._fail_value('unique_while', unique_while, 'waiting or unfinished');
  end if;
  m.enqueued_at := clock_timestamp();
  m.expires_at := m.enqueued_at + coalesce(ttl, make_interval(secs => q.message_ttl_seconds));
  m.queue_id := q.id;
  m.priority := priority;
  m.attempt := 0;
  m.max_attempts := coalesce(max_attempts, q.max_attempts);
  m.key := key;
  m.group_key := group_key;
  m.headers := headers;
  m.payload := payload;
  m.payload_bytes := payload_bytes;
  due := coalesce(visible_at, m.enqueued_at + delay);
  if due <= m.enqueued_at then
    due := null;
  end if;
  if m.priority <> all (q.priorities) or q.plain and (m.expires_at is not null or m.group_key is not null) then
    perform penstock._widen(q, penstock._lane_bits(m.priority, m.expires_at is null and m.group_key is null));
  end if;
  if m.key is not null then
    return penstock._enqueue_keyed(q, m, due, on_conflict, unique_while);
  end if;
  return penstock._admit(q, m, due);
end $$;

-- Refuses what a message may not be, naming the field and what is allowed.
create or replace function penstock._check_message(
  q penstock.queue, payload jsonb, payload_bytes bytea, headers jsonb, key text, priority integer, group_key text, delay interval,
  visible_at timestamptz, ttl interval, max_attempts integer)
returns void language plpgsql as $$
declare
  size bigint;
begin
  if payload is null and payload_bytes is null then
    perform penstock._fail_value('payload', null, 'a JSON value in payload, or bytes in payload_bytes');
  elsif payload is not null and payload_bytes is not null then
    perform penstock._fail_value('payload_bytes', 'given', 'one of payload and payload_bytes, not both');
  end if;
  size := coalesce(octet_length(payload_bytes),
                   case when pg_column_size(payload) * 6 <= q.max_payload_bytes then 0 else octet_length(payload::text) end);
  if size > q.max_payload_bytes then
    perform penstock._fail('PS005', format('the payload has %s bytes; queue %L takes %s', size, q.name, q.max_payload_bytes),
      jsonb_build_object('queue', q.name, 'size', size, 'limit', q.max_payload_bytes),
      'Store the bulk elsewhere and enqueue a reference, or raise max_payload_bytes of the queue.');
  end if;
  if priority not between -9 and 9 or priority is null then
    perform penstock._fail_value('priority', priority::text, 'a whole number from -9 to 9');
  end if;
  if max_attempts not between 1 and 100 then
    perform penstock._fail_value('max_attempts', max_attempts::text, 'a whole number from 1 to 100');
  end if;
  if jsonb_typeof(headers) <> 'object' then
    perform penstock._fail_value('headers', headers::text, 'a JSON object');
  elsif pg_column_size(headers) > 16384 then
    perform penstock._fail_value('headers', format('%s bytes', pg_column_size(headers)), 'at most 16384 bytes');
  end if;
  if octet_length(key) not between 1 and 1024 then
    perform penstock._fail_value('key', key, '1 to 1024 bytes of text');
  end if;
  if octet_length(group_key) not between 1 and 1024 then
    perform penstock._fail_value('group_key', group_key, '1 to 1024 bytes of text');
  end if;
  if delay is not null and visible_at is not null then
    perform penstock._fail_value('visible_at', visible_at::text, 'delay or visible_at, not both');
  elsif delay < interval '0' or delay > interval '100 years' then
    perform penstock._fail_value('delay', delay::text, '0 to 100 years');
  elsif not isfinite(visible_at) or visible_at > clock_timestamp() + interval '100 years' then
    perform penstock._fail_value('visible_at', visible_at::text, 'a time within the next 100 years');
  end if;
  if ttl <= interval '0' or ttl > interval '100 years' then
    perform penstock._fail_value('ttl', ttl::text, 'more than 0, up to 100 years');
  end if;
end $$;

-- Puts a checked message where it belongs: its group, the schedule, or the current segment. Returns its id.
create or replace function penstock._admit(q penstock.queue, m penstock.envelope, due timestamptz) returns bigint language plpgsql as $$
begin
  if q.max_depth is not null then
    perform penstock._reserve_depth(q, 1);
  end if;
  if m.group_key is not null then
    return penstock._join_group(m, due);
  end if;
  if not penstock._in_block() then
    perform penstock._wake_waiters(q, due), penstock._join_generation(q.id, q.generation_register);
  end if;
  m.id := nextval('penstock.position');
  m := penstock._store_body(m);
  if due is not null then
    perform penstock._put_scheduled(due, m);
  else
    perform penstock._put_ready(m, m.id);
  end if;
  return m.id;
end $$;

-- max_depth, exact under concurrency, and without waiting for other producers while the limit is far. The register is an
-- upper bound of the depth: the depth when it was last counted, and every message admitted since, whatever became of it. While it is
-- at or below max_depth, messages are admitted. Every transaction says how many it has been admitted by a shared
-- advisory lock whose key is that number.
-- Once the bound is above the limit, an enqueue counts: the messages it can see, and from those locks the ones of open
-- transactions, which it cannot. If only the open transactions fill the queue, it waits for up to two seconds for
-- them to end. It polls, so it takes part in no deadlock.
-- Locks: (1885695604, queue), of the session, shared for the moment of an admission, exclusive for the time of a count;
-- the lock of _reservation, shared, until commit.
create or replace function penstock._reserve_depth(q penstock.queue, n integer) returns void language plpgsql as $$
declare
  patience timestamptz := clock_timestamp() + interval '2 seconds';
  answer   text := penstock._reserve_below_bound(q, n);
begin
  while answer <> 'admitted' loop
    answer := penstock._count_depth(q, n);
    if answer = 'full' or answer = 'busy' and clock_timestamp() not between patience - interval '2 seconds' and patience then   -- or the clock was put back
      perform penstock._fail_full(q.name, q.max_depth);
    elsif answer = 'busy' then
      perform pg_sleep(0.001);
    end if;
  end loop;
end $$;

-- Admits messages as long as the bound allows it: admitted, or unknown.
create or replace function penstock._reserve_below_bound(q penstock.queue, n integer) returns text language plpgsql as $$
declare
  locked boolean := false;
  answer text := 'unknown';
begin
  begin
    locked := pg_advisory_lock_shared(1885695604, q.id) is not null;
    if (select max(nextval(q.depth_register)) from generate_series(1, n)) <= q.max_depth then
      perform penstock._note_reservation(q.id, n);
      answer := 'admitted';
    end if;
  exception when query_canceled or others then
    if locked then
      perform pg_advisory_unlock_shared(1885695604, q.id);
    end if;
    raise;
  end;
  perform pg_advisory_unlock_shared(1885695604, q.id);
  return answer;
end $$;

-- Counts a queue whose bound was reached: admitted, full, or busy if open transactions decide it. The locks are read before
-- the messages are counted: a transaction that commits in between is counted twice, never missed.
create or replace function penstock._count_depth(q penstock.queue, n integer) returns text language plpgsql as $$
declare
  locked   boolean := false;
  reserved bigint;
  depth    bigint;
  answer   text;
begin
  begin
    locked := pg_advisory_lock(1885695604, q.id) is not null;
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
      perform pg_advisory_unlock(1885695604, q.id);
    end if;
    raise;
  end;
  perform pg_advisory_unlock(1885695604, q.id);
  return answer;
end $$;

-- The key of the lock by which a transaction says how many messages of a queue it was admitted: 16 bits that make it ours,
-- 24 of the queue, 24 of the number.
create or replace function penstock._reservation(queue_id integer, n bigint) returns bigint language sql immutable as $$
  select (28773::bigint << 48) | ((queue_id & 16777215)::bigint << 24) | least(n, 16777215)
$$;

-- Adds to what this transaction was admitted, and takes the lock that says so. Above 16 the number is rounded up to two
-- leading bits, so that a transaction takes some 50 locks for ten thousand messages. The setting remembers the number. A producer
-- who changes it may exceed max_depth by the messages of that transaction.
create or replace function penstock._note_reservation(queue_id integer, n integer) returns void language plpgsql as $$
declare
  noted constant text := coalesce(current_setting('penstock.reserved', true), '');
  before constant bigint := coalesce(substring(noted from ' ' || queue_id || '=(\d{1,8}) ')::bigint, 0);
  after  constant bigint := before + n;
  step   constant bigint := case when after <= 16 then 1 else 2 ^ (floor(log(2, after)) - 2) end;
begin
  perform set_config('penstock.reserved', replace(noted, format(' %s=%s ', queue_id, before), '') || format(' %s=%s ', queue_id, after), true);
  perform pg_advisory_xact_lock_shared(penstock._reservation(queue_id, (after + step - 1) / step * step));
end $$;

-- How many messages of a queue the open transactions of others were admitted.
create or replace function penstock._reserved_by_others(queue_id integer) returns bigint language sql volatile as $$
  select coalesce(sum(t.n), 0)::bigint from (
    select max(l.objid::bigint & 16777215) as n from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1 and l.granted and l.pid is distinct from pg_backend_pid()
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and l.classid::bigint = penstock._reservation(queue_id, 0) >> 32
      and l.objid::bigint >> 24 = (penstock._reservation(queue_id, 0) & 4294967295) >> 24
    group by l.virtualtransaction) t
$$;

select penstock._unroll($unroll$
-- Waiting and leased messages of a queue, counted up to a little more than at_most. Stable: all of it with one snapshot, in
-- which a message that moves from table to table is in one of them.
create or replace function penstock._depth(queue_id integer, at_most bigint) returns bigint
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  n bigint := 0;
begin
  select count(*) into n from (select from penstock.scheduled s where s.queue_id = _depth.queue_id and s.group_key is null limit at_most + 1) c;
  n := n + (select count(*) from (select from penstock.grouped g where g.queue_id = _depth.queue_id limit at_most + 1) c);
  --[
  if n <= at_most then
    n := n + (select count(*) from (select from penstock.lane_{slot} r where r.queue_id = _depth.queue_id and r.group_key is null limit at_most + 1) c)
           + (select count(*) from penstock.leased_{slot} l where l.queue_id = _depth.queue_id and l.dead_at is null);
  end if;
  --]
  return n;
end $$;

-- A payload over a kilobyte is written once, beside the segment, and only the small row moves from state to state.
create or replace function penstock._store_body(m penstock.envelope) returns penstock.envelope language plpgsql as $$
declare
  slot integer;
begin
  m.body_slot := null;
  if greatest(pg_column_size(m.payload), octet_length(m.payload_bytes)) > 1000 then
    m.body_slot := penstock._hold_current();
    slot := m.body_slot;
    --[ slot
    insert into penstock.body_{slot} values (m.id, m.payload, m.payload_bytes);
    --]
    m.payload := null;
    m.payload_bytes := null;
  end if;
  return m;
end $$;

-- The JSON payload, or the bytes, of a message whose body is in a segment: or in the attic, if the segment was cleared.
-- Views call it on behalf of whoever reads them.
create or replace function penstock._body_json(slot smallint, id bigint) returns jsonb language plpgsql stable
security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  value jsonb;
begin
  --[ slot
  select b.payload into value from penstock.body_{slot} b where b.id = _body_json.id;
  --]
  if not found then
    select b.payload into value from penstock.body_0 b where b.id = _body_json.id;
  end if;
  return value;
end $$;

create or replace function penstock._body_bytes(slot smallint, id bigint) returns bytea language plpgsql stable
security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  value bytea;
begin
  --[ slot
  select b.payload_bytes into value from penstock.body_{slot} b where b.id = _body_bytes.id;
  --]
  if not found then
    select b.payload_bytes into value from penstock.body_0 b where b.id = _body_bytes.id;
  end if;
  return value;
end $$;

create or replace function penstock._drop_body(slot smallint, id bigint) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  --[ slot
  delete from penstock.body_{slot} b where b.id = _drop_body.id;
  --]
  if not found then
    delete from penstock.body_0 b where b.id = _drop_body.id;
  end if;
end $$;
$unroll$);
