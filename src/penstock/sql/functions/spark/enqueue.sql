-- The sink of clients up to version 3, which enqueued each partition separately. Unused since version 4: see
-- stage.sql and publish.sql. A task copies the messages of its partition into the temporary table penstock_incoming
-- (see sql/queries/spark/incoming.sql) and calls spark_enqueue in the same transaction.
--
-- spark_enqueue enqueues the copied rows unless this partition of this write was enqueued before. Returns the number of
-- messages, and whether they had been enqueued already. It runs with the rights of its caller, because the caller may
-- put anything in place of that table, for example a view that calls functions. It passes the rows on as arrays to
-- functions that run with the rights of the owner. Locks: the row of the partition in spark_written, and for each queue
-- as enqueue. Uses spark_written_pkey.
create or replace function penstock.spark_enqueue(
  job text, epoch bigint, part integer, queue text default null, on_conflict text default 'replace',
    unique_while text default 'waiting',
  out enqueued bigint, out repeated boolean)
language plpgsql security invoker set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  sum_of_hashes bigint;
  came          jsonb;
  of_queue      record;
begin
  -- One pass collects all facts about the rows. The sum of hashes does not depend on their order, which Spark may
  -- change.
  select coalesce(sum(c.total), 0), coalesce(sum(c.hashes) % {bigint.max}, 0)::bigint,
    coalesce(jsonb_agg(to_jsonb(c)), '[]')
  into enqueued, sum_of_hashes, came
  from (
    select coalesce(i.queue, spark_enqueue.queue) as queue, count(*) as total,
      count(*) filter (where i.key is null and i.group_key is null) as plain,
      sum(case when (i.queue, i.payload_bytes, i.headers, i.key, i.priority, i.group_key, i.delay_seconds, i.visible_at,
        i.ttl_seconds, i.max_attempts) is null
               then jsonb_hash_extended(i.payload, 0)
               else hash_record_extended((i.queue, i.payload_bytes, i.headers, i.key, i.priority, i.group_key,
                                          i.delay_seconds, i.visible_at, i.ttl_seconds, i.max_attempts),
                                          coalesce(jsonb_hash_extended(i.payload, 0), 0)) end) as hashes,
      max(coalesce(pg_column_size(i.payload), octet_length(i.payload_bytes))) as largest,
        avg(coalesce(pg_column_size(i.payload), octet_length(i.payload_bytes))) as usual
    from pg_temp.penstock_incoming i group by 1) c;
  repeated := penstock.spark_begin(job, epoch, part, enqueued, sum_of_hashes);
  if repeated then
    return;
  end if;
  for of_queue in select * from jsonb_to_recordset(came) c (queue text, total bigint, plain bigint, largest bigint,
    usual float8) loop
    perform penstock._spark_hand_on(of_queue.queue, of_queue.queue is not distinct
      from spark_enqueue.queue, of_queue.plain > 0, of_queue.plain < of_queue.total,
      -- Portions of about 2 MB fit in memory. An array is limited to 1 GB, so a portion has at most 512 MB.
      greatest(1, least({limit.messages}, 2097152 / (of_queue.usual + 1), 536870912 / (of_queue.largest + 1)))::integer,
        on_conflict, unique_while);
  end loop;
end $$;

-- Passes on the messages for one queue, in order, in portions of at_once, so that the ring can turn in between.
-- is_default: includes messages without a queue. Runs with the rights of its caller. Locks: as enqueue_many. Scans the
-- temporary table by ctid.
create or replace function penstock._spark_hand_on(
  queue text, is_default boolean, has_plain boolean, has_keys boolean, at_once integer, on_conflict text,
    unique_while text)
returns void language plpgsql set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  after tid := '(0,0)';
  p     record;
begin
  while has_plain loop
    -- A column without values becomes a null, because unnesting many arrays takes most of the time.
    select max(n.place) as last, case when count(n.payload) > 0 then array_agg(n.payload) end as payloads, case
      when count(n.payload_bytes) > 0 then array_agg(n.payload_bytes) end as payloads_bytes,
      case when count(n.headers) > 0 then array_agg(n.headers) end as headers, case when count(n.priority) > 0
        then array_agg(n.priority) end as priorities,
      case when count(n.delay_seconds) > 0 then array_agg(n.delay_seconds) end as delays, case
        when count(n.visible_at) > 0 then array_agg(n.visible_at) end as visible_ats,
      case when count(n.ttl_seconds) > 0 then array_agg(n.ttl_seconds) end as ttls, case when count(n.max_attempts) > 0
        then array_agg(n.max_attempts) end as max_attempts
    into p
    from (
      select i.ctid as place, i.* from pg_temp.penstock_incoming i
      where i.ctid > after and (i.queue = _spark_hand_on.queue or i.queue is null and is_default) and i.key is null
        and i.group_key is null
      limit at_once) n;
    exit when p.last is null;
    perform penstock.spark_put(_spark_hand_on.queue, p.payloads, p.payloads_bytes, p.headers, p.priorities, p.delays,
      p.visible_ats, p.ttls, p.max_attempts);
    after := p.last;
  end loop;
  after := '(0,0)';
  while has_keys loop
    select max(n.place) as last, array_agg(n.payload) as payloads, array_agg(n.payload_bytes) as payloads_bytes,
      array_agg(n.headers) as headers, array_agg(n.key) as keys, array_agg(n.priority) as priorities,
      array_agg(n.group_key) as group_keys, array_agg(make_interval(secs => n.delay_seconds)) as delays,
      array_agg(n.visible_at) as visible_ats, array_agg(make_interval(secs => n.ttl_seconds)) as ttls,
      array_agg(n.max_attempts) as max_attempts
    into p
    from (
      select i.ctid as place, i.* from pg_temp.penstock_incoming i
      where i.ctid > after and (i.queue = _spark_hand_on.queue or i.queue is null and is_default)
        and (i.key is not null or i.group_key is not null)
      limit at_once) n;
    exit when p.last is null;
    perform from penstock.enqueue_many(_spark_hand_on.queue, p.payloads, p.payloads_bytes, p.headers, p.keys,
      p.priorities, p.group_keys, p.delays, p.visible_ats, p.ttls, p.max_attempts, on_conflict, unique_while);
    after := p.last;
  end loop;
end $$;

-- Records a partition of a write. True if it was enqueued before. Locks: the row of the partition in spark_written.
-- Uses spark_written_pkey.
create or replace function penstock.spark_begin(job text, epoch bigint, part integer, count bigint, checksum bigint)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  before penstock.spark_written;
begin
  if exists (select from penstock.spark_written w where w.job = spark_begin.job and w.epoch = spark_begin.epoch
    and w.part = -1) then
    return true;
  end if;
  insert into penstock.spark_written (job, epoch, part, count, checksum)
  values (spark_begin.job, spark_begin.epoch, spark_begin.part, spark_begin.count, spark_begin.checksum)
    on conflict do nothing;
  if found then
    return false;
  end if;
  select * into before from penstock.spark_written w where w.job = spark_begin.job and w.epoch = spark_begin.epoch
    and w.part = spark_begin.part;
  if (before.count, before.checksum) is distinct from (spark_begin.count, spark_begin.checksum) then
    perform penstock._fail_job_written(
      format('partition %s of write %L (epoch %s) was already enqueued with other rows: %s then, %s now', part, job,
        epoch, before.count, spark_begin.count),
      job, jsonb_build_object('part', part),
      'Nothing was enqueued now. A repeated write must have the same rows in the same partitions. '
      'Sort or save the rows first, or use another job.');
  end if;
  return true;
end $$;

-- Marks a write as complete, so that all of it counts as enqueued. Only the last few writes of a stream are kept.
-- Locks: the rows of the write. Uses spark_written_pkey.
create or replace function penstock.spark_complete(job text, epoch bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.spark_written (job, epoch, part, count, checksum)
  select spark_complete.job, spark_complete.epoch, -1, coalesce(sum(w.count), 0), 0 from penstock.spark_written w
  where w.job = spark_complete.job and w.epoch = spark_complete.epoch and w.part >= 0 on conflict do nothing;
  delete from penstock.spark_written w where w.job = spark_complete.job
    and (w.epoch < spark_complete.epoch - 10 or w.epoch = spark_complete.epoch and w.part >= 0);
$$;

-- Enqueues up to 10,000 messages without key and group, given as parallel arrays, with a few statements for all of
-- them. A null array, or a NULL in an array, means the default. Locks: as enqueue.
create or replace function penstock.spark_put(
  queue text, payloads jsonb[], payloads_bytes bytea[] default null, headers jsonb[] default null,
    priorities integer[] default null,
  delays double precision[] default null, visible_ats timestamptz[] default null, ttls double precision[] default null,
    max_attempts integer[] default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
declare
  q penstock.queue;
  p penstock.spark_staged;
begin
  q := penstock._spark_queue(spark_put.queue);
  p.payloads := spark_put.payloads;
  p.payloads_bytes := spark_put.payloads_bytes;
  p.headers := spark_put.headers;
  p.priorities := spark_put.priorities;
  p.delays := spark_put.delays;
  p.visible_ats := spark_put.visible_ats;
  p.ttls := spark_put.ttls;
  p.max_attempts := spark_put.max_attempts;
  perform penstock._spark_put(q, penstock._spark_check_piece(q, p));
end $$;
