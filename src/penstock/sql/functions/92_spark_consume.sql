-- Spark as a consumer. Messages of a batch are leased for as long as the stream's checkpoint owns them, not by the clock:
-- whether they were processed is written in the checkpoint, and only the next run knows. So they are leased for a
-- hundred years, and spark_release gives back what an abandoned checkpoint holds.

-- A run of a stream begins: whoever ran it before is fenced off. Returns the run's generation, the last batch that was
-- acked, and the last one that was planned. Locks: the consumer's row.
create or replace function penstock.spark_attach(consumer text, out generation bigint, out acked_tick bigint, out planned_tick bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if consumer !~ '^[a-z0-9._-]{1,128}$' or consumer is null then
    perform penstock._fail_value('consumer', consumer, '1 to 128 of lowercase letters, digits, - _ and .');
  end if;
  insert into penstock.spark_consumer as c (name, generation) values (consumer, 1)
  on conflict (name) do update set generation = c.generation + 1, seen_at = clock_timestamp()
  returning c.generation, c.acked_tick into spark_attach.generation, spark_attach.acked_tick;
  planned_tick := (select coalesce(max(s.tick), acked_tick) from penstock.spark_slice s where s.consumer = spark_attach.consumer);
end $$;

-- Fails unless this is the latest run. The share lock lets the tasks of a run work side by side, and holds up the next
-- run until they are through.
create or replace function penstock._spark_check(consumer text, generation bigint) returns void language plpgsql as $$
begin
  perform from penstock.spark_consumer c where c.name = consumer and c.generation = _spark_check.generation for share;
  if not found then
    perform penstock._fail('PS007', format('consumer %L was taken over by another run of the stream, or released', consumer),
      jsonb_build_object('consumer', consumer, 'generation', generation),
      'Run each stream once, and give each its own checkpoint and its own name in option consumer. Nothing was changed.');
  end if;
end $$;

-- Plans the next batch: slices of so many messages. If that batch was planned before, by a run that ended before it could
-- say so, the plan stands. Returns the number of slices.
create or replace function penstock.spark_plan(consumer text, generation bigint, tick bigint, queues text[], wanted integer[]) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform penstock._spark_check(consumer, generation);
  perform penstock._check_internal(u) from unnest(queues) u;
  if not exists (select from penstock.spark_slice s where s.consumer = spark_plan.consumer and s.tick = spark_plan.tick) then
    insert into penstock.spark_slice (consumer, tick, slice, queue, wanted)
    select spark_plan.consumer, spark_plan.tick, u.slice - 1, u.queue, u.wanted from unnest(queues, spark_plan.wanted) with ordinality u (queue, wanted, slice);
  end if;
  return (select count(*) from penstock.spark_slice s where s.consumer = spark_plan.consumer and s.tick = spark_plan.tick);
end $$;

select penstock._unroll($unroll$
-- How many messages of a queue could be claimed now, counted up to at_most in each place. A group counts once: its next
-- message is all that can be claimed of it.
create or replace function penstock.spark_ready(queue text, at_most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  past   bigint := penstock._hold_at(now_at);
  q      penstock.queue;
  slot   integer;
  n      bigint;
  total  bigint := 0;
begin
  perform penstock._check_internal(spark_ready.queue);
  select * into q from penstock.queue t where t.name = spark_ready.queue;
  if not found then
    perform penstock._fail_unknown_queue(spark_ready.queue);
  elsif q.paused then
    return 0;
  end if;
  select count(*) into total from (select from penstock.scheduled s where s.queue_id = q.id and s.due_at <= now_at limit at_most) c;
  foreach slot in array penstock._used_slots() loop
    exit when total >= at_most;
    --[ slot
    select count(*) into n from (select from penstock.lane_{slot} t where t.queue_id = q.id and t.hold <= past limit at_most - total) c;
    total := total + n;
    select count(*) into n from (
      select from penstock.leased_{slot} t where t.lease_until <= now_at and t.queue_id = q.id and t.dead_at is null limit at_most - total) c;
    total := total + n;
    --]
  end loop;
  return least(total, at_most);
end $$;
$unroll$);

-- The messages of a slice: claimed now, or the same as before. Locks: the slice's row, the consumer's row (shared), the
-- rows it takes. Uses leased_N_token.
create or replace function penstock.spark_claim(consumer text, generation bigint, tick bigint, slice integer) returns setof penstock.spark_lease
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
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
    perform penstock._fail('PS010', format('batch %s of consumer %L is not known any more: the checkpoint is older than what was acked', tick, consumer),
      jsonb_build_object('consumer', consumer, 'tick', tick), 'Use a new checkpoint, and a consumer of another name.');
  elsif s.settled_xid is not null then
    -- Spark lost its own note of the batch, and asks for it again.
    return query
    select h.id, h.queue, h.payload::text, h.payload_bytes, h.headers::text, h.key, h.priority, h.group_key, h.attempts, h.max_attempts,
      h.enqueued_at, h.first_claimed_at, null::timestamptz, h.last_error
    from penstock.history_feed h where h.xid = s.settled_xid and h.queue = s.queue order by h.id;
    if not found and s.taken > 0 then
      perform penstock._fail('PS010', format('batch %s of consumer %L was acked, and queue %L keeps no history to read it from again', tick, consumer, s.queue),
        jsonb_build_object('consumer', consumer, 'tick', tick), 'It is in the sink. Use a new checkpoint, and a consumer of another name.');
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
  return query select * from penstock._spark_held(s.queue, coalesce(s.tokens, '{}'));
end $$;

-- Takes up to wanted messages, or fewer if their payloads are large: what a task holds in memory. Returns the tokens of
-- their leases. As penstock._claim_special, without handing them out.
create or replace function penstock._spark_take(q penstock.queue, wanted integer, worker text, out tokens bigint[], out taken integer) language plpgsql as $$
declare
  piece      integer := 500;
  most_bytes constant bigint := 33554432;
  until      constant timestamptz := clock_timestamp() + interval '100 years';
  keeps      constant integer := case when q.keep_history > 0 then 16 else 0 end;
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
    live := split_part(pg_sequence_last_value('penstock.ring')::text, '9', 2);
    for lane in 1 .. cardinality(q.priorities) loop
      for i in 1 .. length(live) loop
        slot := substr(live, i, 1);
        while taken < allowed and bytes < most_bytes loop
          -- A token for each piece, so that looking at a piece does not mean looking at all before it.
          lease := penstock._lease_number() + keeps + slot;
          n := penstock._take_special(slot, q, lane, least(allowed - taken, piece), lease, until, worker);
          exit when n = 0;
          tokens := tokens || lease;
          taken := taken + n - penstock._resolve(slot, lease, until, worker);
          bytes := bytes + penstock._spark_bytes(slot, lease);
          piece := case when bytes = 0 then 5000 else 500 end;
        end loop;
      end loop;
    end loop;
    exit when taken >= allowed or bytes >= most_bytes or round = 2 or not penstock._look_again(q, allowed - taken, taken > 0);
  end loop;
  if q.throughput_limit is not null and taken < allowed then
    perform penstock._spend(q, taken - allowed);
  end if;
end $$;

select penstock._unroll($unroll$
-- The size of the large payloads under a token; small ones do not count.
create or replace function penstock._spark_bytes(slot integer, token bigint) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  --[ slot
  return coalesce((select sum(penstock._body_size(l.body_slot, l.id)) from penstock.leased_{slot} l where l.token = _spark_bytes.token and l.body_slot is not null), 0);
  --]
end $$;

create or replace function penstock._body_size(slot smallint, id bigint) returns bigint language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  size bigint;
begin
  --[ slot
  select coalesce(pg_column_size(b.payload), octet_length(b.payload_bytes)) into size from penstock.body_{slot} b where b.id = _body_size.id;
  --]
  return size;
end $$;

-- The messages under these tokens, in the segments where they were claimed or in the attic.
create or replace function penstock._spark_held(queue text, tokens bigint[]) returns setof penstock.spark_lease language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  slot integer;
begin
  foreach slot in array array(select distinct (t & 15)::integer from unnest(tokens) t union select 0 where tokens <> '{}') loop
    --[ slot
    return query
    select l.id, _spark_held.queue, case when l.body_slot is null then l.payload else penstock._body_json(l.body_slot, l.id) end::text,
      case when l.body_slot is null then l.payload_bytes else penstock._body_bytes(l.body_slot, l.id) end, l.headers::text, l.key,
      l.priority::integer, l.group_key, l.attempt::integer, l.max_attempts::integer, l.enqueued_at, l.first_claimed_at, l.expires_at, l.last_error
    from penstock.leased_{slot} l where l.token = any (tokens);
    --]
  end loop;
end $$;

-- Settles what is held under these tokens as done. Returns how many.
create or replace function penstock._spark_done(tokens bigint[]) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  slot    integer;
  n       integer;
  settled integer := 0;
  l       penstock.leased_0;
begin
  foreach slot in array array(select distinct (t & 15)::integer from unnest(tokens) t union select 0 where tokens <> '{}') loop
    --[ slot
    with gone as (
      delete from penstock.leased_{slot} l where l.token = any (tokens) and (l.key, l.group_key, l.body_slot) is null returning l.*),
    logged as (
      insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at, last_claimed_at, finished_at, attempts,
        max_attempts, priority, payload_bytes_count, headers_bytes_count, worker, last_error, headers, payload, payload_bytes)
      select pg_sequence_last_value('penstock.history_current'), g.id, q.name, 'done', g.enqueued_at, g.first_claimed_at, g.claimed_at, started,
        g.attempt, g.max_attempts, g.priority, coalesce(octet_length(g.payload_bytes), octet_length(g.payload::text)),
        coalesce(octet_length(g.headers::text), 0), g.worker, g.last_error, g.headers, g.payload, g.payload_bytes
      from gone g join penstock.queue q on q.id = g.queue_id where q.keep_history > 0)
    select count(*) into n from gone;
    settled := settled + n;
    for l in delete from penstock.leased_{slot} l where l.token = any (tokens) returning l.* loop
      perform penstock._done(l);
      settled := settled + 1;
    end loop;
    --]
  end loop;
  return settled;
end $$;

-- Gives back what is held under these tokens, without burning the attempt. Returns how many.
create or replace function penstock._spark_give_back(tokens bigint[]) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot     integer;
  returned integer := 0;
  l        penstock.leased_0;
begin
  foreach slot in array array(select distinct (t & 15)::integer from unnest(tokens) t union select 0 where tokens <> '{}') loop
    --[ slot
    for l in delete from penstock.leased_{slot} l where l.token = any (tokens) returning l.* loop
      perform penstock._put_off(l, interval '0');
      returned := returned + 1;
    end loop;
    --]
  end loop;
  return returned;
end $$;
$unroll$);

-- The batches up to tick are in the sink. The messages themselves are settled slice by slice, with spark_settle: this is
-- the moment from which on they will be, whoever dies meanwhile.
create or replace function penstock.spark_ack(consumer text, generation bigint, tick bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform penstock._spark_check(consumer, generation);
  update penstock.spark_consumer c set acked_tick = spark_ack.tick, seen_at = clock_timestamp() where c.name = consumer and c.acked_tick < spark_ack.tick;
  -- Some are kept, for a checkpoint that lost its note of the last ones.
  delete from penstock.spark_slice s where s.consumer = spark_ack.consumer and s.tick < spark_ack.tick - 3 and s.settled_xid is not null;
end $$;

-- I am still here: at most one of these in a few seconds.
create or replace function penstock.spark_seen(consumer text, generation bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock._spark_check(consumer, generation);
  update penstock.spark_consumer c set seen_at = clock_timestamp() where c.name = consumer;
end $$;

-- The slices of acked batches that are still to be settled.
create or replace function penstock.spark_unsettled(consumer text) returns table (tick bigint, slice integer)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select s.tick, s.slice from penstock.spark_slice s join penstock.spark_consumer c on c.name = s.consumer
  where s.consumer = spark_unsettled.consumer and s.tick <= c.acked_tick and s.settled_xid is null order by 1, 2
$$;

-- Settles the messages of a slice of an acked batch. To be called in a transaction of its own: history tells from the
-- transaction which messages the slice had. Returns how many.
create or replace function penstock.spark_settle(consumer text, tick bigint, slice integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.spark_slice;
begin
  select t.* into s from penstock.spark_slice t join penstock.spark_consumer c on c.name = t.consumer
  where t.consumer = spark_settle.consumer and t.tick = spark_settle.tick and t.slice = spark_settle.slice and t.tick <= c.acked_tick
    and t.settled_xid is null for update of t;
  if not found then
    return 0;
  end if;
  perform penstock._check_internal(s.queue);
  update penstock.spark_slice t set settled_xid = pg_current_xact_id()
  where t.consumer = spark_settle.consumer and t.tick = spark_settle.tick and t.slice = spark_settle.slice;
  return penstock._spark_done(coalesce(s.tokens, '{}'));
end $$;

-- Forgets a stream: what it has acked is settled, the rest goes back to its queue, and a run that still lives is fenced
-- off. Returns how many messages went back. Locks: the consumer's row.
create or replace function penstock.spark_release(consumer text) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  c        penstock.spark_consumer;
  s        penstock.spark_slice;
  returned integer := 0;
begin
  select * into c from penstock.spark_consumer t where t.name = spark_release.consumer for update;
  if not found then
    perform penstock._fail_value('consumer', consumer, 'the name of a consumer in penstock.spark_consumers');
  end if;
  for s in select * from penstock.spark_slice t where t.consumer = spark_release.consumer and t.settled_xid is null order by t.tick, t.slice loop
    perform penstock._check_internal(s.queue);
    if s.tick <= c.acked_tick then
      perform penstock._spark_done(coalesce(s.tokens, '{}'));
    else
      returned := returned + penstock._spark_give_back(coalesce(s.tokens, '{}'));
    end if;
  end loop;
  delete from penstock.spark_consumer t where t.name = spark_release.consumer;
  return returned;
end $$;
