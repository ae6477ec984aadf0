-- Enqueues everything that a write has staged, in this transaction, or nothing. attempts are those of its tasks that
-- succeeded, in the order of their partitions; rows and checksum are the sums of the values that spark_stage returned
-- for them.
--
-- A write that was published before is recognised by its name: with the same rows it is `repeated`, and nothing is
-- enqueued; other rows are refused. same_batch: the epoch of a stream is the same batch even if its rows differ:
-- Spark computes it from the same input again.
--
-- Locks: the row of the write in spark_write, for which a second run of the same write waits; for each queue, as
-- enqueue. Uses spark_write_pkey and spark_staged_pkey.
create or replace function penstock.spark_publish(
  job text, epoch bigint, attempts uuid[], rows bigint, checksum bigint, on_conflict text default 'replace',
  unique_while text default 'waiting', is_named boolean default true, same_batch boolean default false,
  out repeated boolean, out published_at timestamptz, out published_rows bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
declare
  before penstock.spark_write;
begin
  if octet_length(job) not between 1 and 512 or job is null then
    perform penstock._fail_value('job', job, '1 to 512 bytes of text');
  end if;
  insert into penstock.spark_write as w (job, epoch, is_named, count, checksum)
  values (spark_publish.job, spark_publish.epoch, spark_publish.is_named, rows, spark_publish.checksum)
  on conflict do nothing returning w.* into before;
  repeated := not found;
  if repeated then
    update penstock.spark_write w set repeats = w.repeats + 1, repeated_at = clock_timestamp()
    where w.job = spark_publish.job and w.epoch = spark_publish.epoch returning w.* into before;
    if (before.count, before.checksum) is distinct from (rows, spark_publish.checksum) and not same_batch then
      perform penstock._fail_job_written(
        format('job %L was written before with other rows: %s at %s, and %s now', job, before.count,
          date_trunc('second', before.published_at), rows), job, jsonb_build_object('count', before.count),
        'Nothing was enqueued. Write the same rows to repeat the job, or give other rows another job name.');
    end if;
  else
    perform penstock._spark_check_order(job, epoch, rows);
    perform penstock._spark_enqueue_staged(attempts, rows, checksum, on_conflict, unique_while);
  end if;
  published_at := before.published_at;
  published_rows := before.count;
  delete from penstock.spark_staged s where s.attempt = any (attempts);
  -- Only the last few writes of a stream are kept.
  delete from penstock.spark_write w where w.job = spark_publish.job and w.epoch < spark_publish.epoch - 10;
end $$;

-- Refuses an epoch that is older than those that are known, because it may have been written; and a write that a client
-- of version 2 has begun. Uses spark_write_pkey and spark_written_pkey. Locks: ACCESS SHARE.
create or replace function penstock._spark_check_order(job text, epoch bigint, rows bigint) returns void
language plpgsql as $$
declare
  latest  bigint := (select max(w.epoch) from penstock.spark_write w where w.job = _spark_check_order.job);
  earlier bigint := (select sum(w.count) from penstock.spark_written w
    where w.job = _spark_check_order.job and w.epoch = _spark_check_order.epoch);
begin
  if latest > epoch then
    perform penstock._fail('PS052', format('batch %s of job %L comes after batch %s was written', epoch, job, latest),
      jsonb_build_object('job', job, 'epoch', epoch),
      'Nothing was enqueued. A new checkpoint needs another job name, or none.');
  elsif earlier is not null then
    perform penstock._fail_job_written(
      format('job %L (batch %s) was written by an earlier version of Penstock, with %s rows; %s now', job, epoch,
      earlier, rows), job, jsonb_build_object('count', earlier),
      'Nothing was enqueued. If rows are missing, write those under another job name.');
  end if;
end $$;

-- Enqueues the staged messages, in order, a piece at a time, so that the ring can turn in between. Locks: as
-- enqueue_many. Uses spark_staged_pkey and queue_name_key.
create or replace function penstock._spark_enqueue_staged(attempts uuid[], rows bigint, checksum bigint,
  on_conflict text, unique_while text) returns void language plpgsql as $$
#variable_conflict use_column
declare
  q        penstock.queue;
  p        penstock.spark_staged;
  of_queue record;
  total    bigint := 0;
  sums     numeric := 0;
begin
  -- A write larger than its queue would wait forever.
  for of_queue in
    select s.queue, sum(s.count) as count, max(t.max_depth) as max_depth
    from penstock.spark_staged s join penstock.queue t on t.name = s.queue
    where s.attempt = any (attempts) and t.max_depth is not null group by s.queue having sum(s.count) > max(t.max_depth)
      loop
    perform penstock._fail_value('rows', of_queue.count::text, format(
      'at most %s, the max_depth of queue %L: a write is enqueued as a whole', of_queue.max_depth, of_queue.queue));
  end loop;
  for p in
    select s.* from unnest(attempts) with ordinality a (attempt, place)
    join penstock.spark_staged s on s.attempt = a.attempt order by a.place, s.piece loop
    total := total + p.count;
    sums := sums + p.checksum;
    if q.name is distinct from p.queue then
      q := penstock._spark_queue(p.queue);
    end if;
    if p.keys is null and p.group_keys is null then
      perform penstock._spark_put(q, p);
    else
      perform from penstock.enqueue_many(p.queue, p.payloads, p.payloads_bytes, p.headers, p.keys, p.priorities,
        p.group_keys, (select array_agg(make_interval(secs => d)) from unnest(p.delays) d), p.visible_ats,
        (select array_agg(make_interval(secs => t)) from unnest(p.ttls) t), p.max_attempts, on_conflict, unique_while);
    end if;
  end loop;
  if total <> rows or sums % {bigint.max} <> checksum then
    perform penstock._fail('40001', format('%s of %s staged rows are there', total, rows),
      jsonb_build_object('staged', total, 'rows', rows),
      'Nothing was enqueued. PostgreSQL has crashed since they were staged, or a day has passed: write them again.');
  end if;
end $$;
