-- Plans the next batch as slices of a number of messages, and returns the number of slices. If the batch was already
-- planned by a run that died before it could record the result, that plan is used. Locks: the row of the consumer,
-- shared. Uses spark_slice_pkey.
create or replace function penstock.spark_plan(consumer text, generation bigint, tick bigint, queues text[],
  wanted integer[]) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform penstock._spark_check(consumer, generation);
  perform penstock._check_internal(u) from unnest(queues) u;
  if not exists (select from penstock.spark_slice s where s.consumer = spark_plan.consumer and s.tick = spark_plan.tick)
    then
    insert into penstock.spark_slice (consumer, tick, slice, queue, wanted)
    select spark_plan.consumer, spark_plan.tick, u.slice - 1, u.queue, u.wanted
      from unnest(queues, spark_plan.wanted) with ordinality u (queue, wanted, slice);
  end if;
  return (select count(*) from penstock.spark_slice s where s.consumer = spark_plan.consumer
    and s.tick = spark_plan.tick);
end $$;

-- Returns the number of messages of a queue that can be claimed now, counted up to at_most in each table. A group
-- counts once, because only its next message can be claimed. Locks: ACCESS SHARE. Uses lane_N_order and
-- scheduled_queue and leased_N_until.
create or replace function penstock.spark_ready(queue text, at_most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off set jit = off as $$
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
  select count(*) into total from (select from penstock.scheduled s where s.queue_id = q.id and s.due_at <= now_at
    limit at_most) c;
  foreach slot in array penstock._used_slots() loop
    exit when total >= at_most;
    --: branch on slot
    select count(*) into n from (select from penstock.lane_{slot} t where t.queue_id = q.id and t.hold <= past
      limit at_most - total) c;
    total := total + n;
    select count(*) into n from (
      select from penstock.leased_{slot} t where t.lease_until <= now_at and t.queue_id = q.id and t.dead_at is null
        limit at_most - total) c;
    total := total + n;
    --: end
  end loop;
  return least(total, at_most);
end $$;
