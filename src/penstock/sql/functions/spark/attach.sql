-- Spark as a consumer. The messages of a batch belong to the checkpoint of the stream and have no lease timeout,
-- because only the checkpoint shows whether they were processed, and only the next run can read it. So they are leased
-- for a hundred years, and spark_release gives back the messages of an abandoned checkpoint.
--
-- spark_attach starts a run of a stream and fences off an earlier run. Returns the generation of the run, the last
-- acked batch and the last planned batch. Locks: the row of the consumer. Uses spark_consumer_pkey.
create or replace function penstock.spark_attach(consumer text, out generation bigint, out acked_tick bigint,
  out planned_tick bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if consumer !~ '^[a-z0-9._-]{1,128}$' or consumer is null then
    perform penstock._fail_value('consumer', consumer, '1 to 128 lowercase letters, digits, -, _ and .');
  end if;
  insert into penstock.spark_consumer as c (name, generation) values (consumer, 1)
  on conflict (name) do update set generation = c.generation + 1, seen_at = clock_timestamp()
  returning c.generation, c.acked_tick into spark_attach.generation, spark_attach.acked_tick;
  planned_tick := (select coalesce(max(s.tick), acked_tick) from penstock.spark_slice s
    where s.consumer = spark_attach.consumer);
end $$;

-- Fails unless this is the latest run. The share lock allows the tasks of a run to work at the same time, and makes the
-- next run wait for them. Uses spark_consumer_pkey.
create or replace function penstock._spark_check(consumer text, generation bigint) returns void language plpgsql as $$
begin
  perform from penstock.spark_consumer c where c.name = consumer and c.generation = _spark_check.generation for share;
  if not found then
    perform penstock._fail('PS050', format('consumer %L was taken over by another run of the stream, or released',
      consumer), jsonb_build_object('consumer', consumer, 'generation', generation),
      'Nothing was changed. Run each stream only once at a time. '
      'Give each stream its own checkpoint and its own name in the option consumer.');
  end if;
end $$;

-- Records that the stream is alive. The stream calls it every few seconds. Locks: the row of the consumer. Uses
-- spark_consumer_pkey.
create or replace function penstock.spark_seen(consumer text, generation bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update penstock.spark_consumer c set seen_at = clock_timestamp()
  where c.name = consumer and c.generation = spark_seen.generation;
  if not found then
    perform penstock._spark_check(consumer, generation);
  end if;
end $$;
