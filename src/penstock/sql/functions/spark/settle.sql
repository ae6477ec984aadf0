-- spark_ack records that the batches up to tick are in the sink. spark_settle then settles the messages slice by slice,
-- even if a process dies in between. Two sessions of a run call it or spark_seen at the same time, so neither locks the
-- row shared first: both would wait for each other. Locks: the row of the consumer. Uses spark_consumer_pkey.
create or replace function penstock.spark_ack(consumer text, generation bigint, tick bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update penstock.spark_consumer c set acked_tick = greatest(c.acked_tick, spark_ack.tick), seen_at = clock_timestamp()
  where c.name = consumer and c.generation = spark_ack.generation;
  if not found then
    perform penstock._spark_check(consumer, generation);
  end if;
  -- Some slices are kept for a checkpoint that has lost its record of the last batches.
  delete from penstock.spark_slice s where s.consumer = spark_ack.consumer and s.tick < spark_ack.tick - 3
    and s.settled_xid is not null;
end $$;

-- Returns the slices of acked batches that are not settled yet. Locks: none. Uses spark_slice_pkey.
create or replace function penstock.spark_unsettled(consumer text) returns table (tick bigint, slice integer)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select s.tick, s.slice from penstock.spark_slice s join penstock.spark_consumer c on c.name = s.consumer
  where s.consumer = spark_unsettled.consumer and s.tick <= c.acked_tick and s.settled_xid is null order by 1, 2
$$;

-- Settles the messages of a slice of an acked batch, and returns their number. Call it in a separate transaction,
-- because the transaction id in history identifies the messages of the slice. Locks: the row of the slice, and the
-- messages. Uses spark_slice_pkey and leased_N_token.
create or replace function penstock.spark_settle(consumer text, tick bigint, slice integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.spark_slice;
begin
  select t.* into s from penstock.spark_slice t join penstock.spark_consumer c on c.name = t.consumer
  where t.consumer = spark_settle.consumer and t.tick = spark_settle.tick and t.slice = spark_settle.slice
    and t.tick <= c.acked_tick
    and t.settled_xid is null for update of t;
  if not found then
    return 0;
  end if;
  perform penstock._check_internal(s.queue);
  update penstock.spark_slice t set settled_xid = pg_current_xact_id()
  where t.consumer = spark_settle.consumer and t.tick = spark_settle.tick and t.slice = spark_settle.slice;
  return penstock._spark_done(coalesce(s.tokens, '{}'));
end $$;

-- Removes a stream. Messages of acked batches are settled, the others go back to their queue, and a running stream is
-- fenced off. Returns the number of messages that went back. Locks: the row of the consumer, and the messages. Uses
-- spark_consumer_pkey and spark_slice_pkey.
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
  for s in select * from penstock.spark_slice t where t.consumer = spark_release.consumer and t.settled_xid is null
    order by t.tick, t.slice loop
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

-- Settles the messages under these tokens as done, and returns their number. The overflow segment comes last, because
-- the ring may move messages there meanwhile. Uses leased_N_token. Locks: the rows of the messages.
create or replace function penstock._spark_done(tokens bigint[]) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  slot    integer;
  n       integer;
  settled integer := 0;
  l       penstock.leased_0;
begin
  foreach slot in array array(select distinct {token.segment(t)}::integer from unnest(tokens) t union select 0
    where tokens <> '{}' order by 1 desc) loop
    --: branch on slot
    with gone as (
      delete from penstock.leased_{slot} l where l.token = any (tokens) and (l.key, l.group_key, l.body_slot) is null
        and {is_no_member(l)} returning l.*),
    logged as (
      {history.insert(g, q.name, 'done', started, g.last_error)}
      from gone g join penstock.queue q on q.id = g.queue_id where q.keep_history > 0)
    select count(*) into n from gone;
    settled := settled + n;
    -- The rest has a key, a group or a body, or may be a member of a batch. It is settled one by one, and counted.
    for l in delete from penstock.leased_{slot} l where l.token = any (tokens) returning l.* loop
      perform penstock._done(l);
      settled := settled + 1;
    end loop;
    --: end
  end loop;
  return settled;
end $$;

-- Gives back the messages under these tokens without counting the attempt, and returns their number. Uses
-- leased_N_token. Locks: the rows of the messages.
create or replace function penstock._spark_give_back(tokens bigint[]) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot     integer;
  returned integer := 0;
  l        penstock.leased_0;
begin
  foreach slot in array array(select distinct {token.segment(t)}::integer from unnest(tokens) t union select 0
    where tokens <> '{}' order by 1 desc) loop
    --: branch on slot
    for l in delete from penstock.leased_{slot} l where l.token = any (tokens) returning l.* loop
      perform penstock._put_off(l, interval '0');
      returned := returned + 1;
    end loop;
    --: end
  end loop;
  return returned;
end $$;
