-- Claims the messages of a slice, or returns the same messages again. Locks: the row of the slice, the row of the
-- consumer (shared), the claimed messages. Uses leased_N_token and lane_N_order.
create or replace function penstock.spark_claim(consumer text, generation bigint, tick bigint, slice integer)
returns setof penstock.spark_lease
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  s penstock.spark_slice;
  q penstock.queue;
begin
  perform penstock._spark_check(consumer, generation);
  select * into s from penstock.spark_slice t
  where t.consumer = spark_claim.consumer and t.tick = spark_claim.tick and t.slice = spark_claim.slice for update;
  perform penstock._check_internal(s.queue);
  if s.consumer is null then
    perform penstock._fail_batch_gone('is no longer known: the checkpoint is older than the last ack', consumer, tick,
      'Use a new checkpoint and another name in the option consumer.');
  elsif s.settled_xid is not null then
    -- Spark has lost its record of the batch and requests it again.
    return query
    select h.id, h.queue, h.payload::text, h.payload_bytes, h.headers::text, h.key, h.priority, h.group_key, h.attempts,
      h.max_attempts, h.enqueued_at, h.first_claimed_at, null::timestamptz, h.last_error
    from penstock.history_feed h where h.xid = s.settled_xid and h.queue = s.queue order by h.id;
    if not found and s.taken > 0 then
      perform penstock._fail_batch_gone(
        format('was acked, and queue %L keeps no history to read it again', s.queue), consumer, tick,
        'The batch is in the sink. Use a new checkpoint and another name in the option consumer.');
    end if;
    return;
  elsif s.tokens is null then
    select * into q from penstock.queue t where t.name = s.queue;
    if found and not q.paused then
      select * into s.tokens, s.taken from penstock._spark_take(q, s.wanted, 'spark/' || consumer);
    end if;
    update penstock.spark_slice t set tokens = coalesce(s.tokens, '{}'), taken = coalesce(s.taken, 0)
    where t.consumer = spark_claim.consumer and t.tick = spark_claim.tick and t.slice = spark_claim.slice;
  end if;
  perform penstock._spark_lock_segments(coalesce(s.tokens, '{}'));
  return query select * from penstock._spark_held(s.queue, coalesce(s.tokens, '{}'));
end $$;

-- Claims up to wanted messages, or fewer if their payloads are large, because a task holds them in memory. Returns the
-- tokens of their leases. Like penstock._claim_special, but does not return the messages. Locks: the claimed messages,
-- with SKIP LOCKED, and the throughput lock as _spend. Indexes: as _take_special.
create or replace function penstock._spark_take(q penstock.queue, wanted integer, worker text, out tokens bigint[],
  out taken integer) language plpgsql as $$
declare
  piece      integer := 500;
  most_bytes constant bigint := 33554432;
  until      constant timestamptz := clock_timestamp() + interval '100 years';
  keeps      constant integer := case when q.keep_history > 0 or q.has_members then {token.history_bit} else 0 end;
  allowed    integer;
  bytes      bigint := 0;
  live       text;
  slot       integer;
  lease      bigint;
  n          integer;
begin
  tokens := '{}';
  taken := 0;
  q := penstock._with_lanes(q);
  perform penstock._in_passing(q);
  allowed := penstock._allowance(q, wanted);
  for round in 1 .. 2 loop
    live := {ring.in_use({ring.text})};
    for lane in 1 .. cardinality(q.priorities) loop
      for i in 1 .. length(live) loop
        slot := substr(live, i, 1);
        while taken < allowed and bytes < most_bytes loop
          -- Each portion has its own token, so that measuring one portion does not include the earlier ones.
          lease := penstock._lease_number() + {token.secret(q.name)} + keeps + slot;
          n := penstock._take_special(slot, q, lane, least(allowed - taken, piece), lease, until, worker);
          exit when n = 0;
          tokens := tokens || lease;
          taken := taken + n - penstock._resolve(slot, lease, until, worker);
          bytes := bytes + penstock._spark_bytes(slot, lease);
          piece := case when bytes = 0 then 5000 else 500 end;
        end loop;
      end loop;
    end loop;
    exit when taken >= allowed or bytes >= most_bytes or round = 2
      or not penstock._look_again(q, allowed - taken, taken > 0);
  end loop;
  if q.throughput_limit is not null and taken < allowed then
    perform penstock._spend(q, taken - allowed);
  end if;
end $$;

-- Returns the total size of the large payloads under a token. Small ones do not count. Uses leased_N_token. Locks:
-- ACCESS SHARE.
create or replace function penstock._spark_bytes(slot integer, token bigint) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  --: branch on slot
  return coalesce((select sum(penstock._body_size(l.body_slot, l.id)) from penstock.leased_{slot} l
    where l.token = _spark_bytes.token and l.body_slot is not null), 0);
  --: end
end $$;

-- Keeps the segments of these tokens from being truncated until commit, so that a snapshot that is taken afterwards
-- finds every message and payload in them. Indexes: none. Locks: ACCESS SHARE.
create or replace function penstock._spark_lock_segments(tokens bigint[]) returns void language plpgsql as $$
declare
  slot integer;
begin
  foreach slot in array array(select distinct {token.segment(t)}::integer from unnest(tokens) t) loop
    --: branch on slot
    lock table penstock.leased_{slot}, penstock.body_{slot} in access share mode;
    --: end
  end loop;
end $$;

-- Returns the messages under these tokens, in the segments where they were claimed or in the overflow segment. The ring
-- may move messages there meanwhile. The function is STABLE, so that one snapshot shows each message once, and the
-- segments must be locked before that snapshot is taken. Uses leased_N_token. Locks: ACCESS SHARE.
create or replace function penstock._spark_held(queue text, tokens bigint[]) returns setof penstock.spark_lease
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  slot integer;
begin
  foreach slot in array array(select distinct {token.segment(t)}::integer from unnest(tokens) t union select 0
    where tokens <> '{}') loop
    --: branch on slot
    return query
    select l.id, _spark_held.queue, case when l.body_slot is null then l.payload
      else penstock._body_json(l.body_slot, l.id) end::text, case when l.body_slot is null then l.payload_bytes
      else penstock._body_bytes(l.body_slot, l.id) end, l.headers::text, l.key,
      l.priority::integer, l.group_key, l.attempt::integer, l.max_attempts::integer, l.enqueued_at, l.first_claimed_at,
        l.expires_at, l.last_error
    from penstock.leased_{slot} l where l.token = any (tokens);
    --: end
  end loop;
end $$;
