-- Spark as a producer. A task copies the messages of its partition into the temporary table penstock_incoming (see
-- sql/lake/incoming.sql) and calls spark_enqueue in the same transaction.
--
-- spark_enqueue enqueues what was copied, unless this partition of this write was enqueued before. Returns how many
-- messages there were, and whether they had been enqueued already. It runs with the rights of its caller, who may put
-- anything in place of that table, for example a view with functions in it. It hands the rows on in arrays, to
-- functions that run with the rights of the owner. Locks: the row of the partition in spark_written; for each queue, as
-- enqueue. Uses spark_written_pkey.
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
  -- Everything that has to be known about the rows, in one pass. The sum of hashes does not depend on their order,
  -- which Spark may change.
  select coalesce(sum(c.total), 0), coalesce(sum(c.hashes) % 9223372036854775807, 0)::bigint,
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
      -- Pieces of some 2 MB, so that they fit in memory, and of 512 MB at most: an array has a limit of 1 GB.
      greatest(1, least(10000, 2097152 / (of_queue.usual + 1), 536870912 / (of_queue.largest + 1)))::integer,
        on_conflict, unique_while);
  end loop;
end $$;

-- Hands on the messages for one queue, in order, in pieces of at_once, so that the ring can turn in between.
-- is_default: includes messages without a queue. Runs with the rights of its caller.
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
    -- A column without values becomes a null: unnesting many arrays takes most of the time.
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

-- Begins a partition of a write. True if it was enqueued before. Locks: the row of the partition in spark_written.
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
    perform penstock._fail('PS004',
      format('partition %s of write %L (epoch %s) was enqueued before, with other rows: %s then, %s now', part, job,
        epoch, before.count, spark_begin.count),
      jsonb_build_object('field', 'job', 'value', job, 'part', part),
      'Nothing was enqueued now. A write that is repeated has to have the same rows in the same partitions: '
      'sort or save them first, or use another job.');
  end if;
  return true;
end $$;

-- The write is complete: from now on all of it counts as enqueued before. Only the last few writes of a stream are
-- kept.
create or replace function penstock.spark_complete(job text, epoch bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.spark_written (job, epoch, part, count, checksum)
  select spark_complete.job, spark_complete.epoch, -1, coalesce(sum(w.count), 0), 0 from penstock.spark_written w
  where w.job = spark_complete.job and w.epoch = spark_complete.epoch and w.part >= 0 on conflict do nothing;
  delete from penstock.spark_written w where w.job = spark_complete.job
    and (w.epoch < spark_complete.epoch - 10 or w.epoch = spark_complete.epoch and w.part >= 0);
$$;

-- Puts up to ten thousand messages without key and group into a queue, with a few statements for all of them. Parallel
-- arrays. A null array, or a NULL in an array, means the default. Locks: as enqueue.
create or replace function penstock.spark_put(
  queue text, payloads jsonb[], payloads_bytes bytea[] default null, headers jsonb[] default null,
    priorities integer[] default null,
  delays double precision[] default null, visible_ats timestamptz[] default null, ttls double precision[] default null,
    max_attempts integer[] default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  q       penstock.queue;
  came    record;
  lane    record;
  slot    integer;
begin
  perform penstock._check_internal(spark_put.queue);
  select * into q from penstock.queue t where t.name = spark_put.queue;
  if not found then
    perform penstock._check_name(spark_put.queue);
    perform penstock._fail_unknown_queue(spark_put.queue);
  end if;
  select count(*) as total, max(pg_column_size(i.payload)) as json_size,
    max(octet_length(i.payload_bytes)) as bytes_size,
    bool_or((i.payload is null) = (i.payload_bytes is null) or i.headers is not null or i.priority not between -9 and 9
            or i.max_attempts not between 1 and 100 or i.delay is not null or i.visible_at is not null
              or i.ttl is not null) as doubtful,
    coalesce(bool_or(i.delay > 0 or i.visible_at is not null), false) as later,
    coalesce(min(i.priority) <> 0 or max(i.priority) <> 0 or min(i.ttl) > 0, false) as lanes
  into came
  from unnest(payloads, payloads_bytes, spark_put.headers, spark_put.priorities, delays, visible_ats, ttls,
    spark_put.max_attempts)
       i (payload, payload_bytes, headers, priority, delay, visible_at, ttl, max_attempts);
  if came.total not between 1 and 10000 then
    perform penstock._fail_value('payloads', came.total || ' messages', '1 to 10000 messages a call');
  end if;
  if came.doubtful or greatest(came.json_size * 6, came.bytes_size) > q.max_payload_bytes then
    perform penstock._check_message(q, i.payload, i.payload_bytes, i.headers, null, coalesce(i.priority, 0), null,
      make_interval(secs => i.delay), i.visible_at, make_interval(secs => i.ttl), i.max_attempts)
    from unnest(payloads, payloads_bytes, spark_put.headers, spark_put.priorities, delays, visible_ats, ttls,
      spark_put.max_attempts)
         i (payload, payload_bytes, headers, priority, delay, visible_at, ttl, max_attempts);
  end if;
  if q.max_depth is not null then
    perform penstock._reserve_depth(q, came.total::integer);
  end if;
  if came.lanes or q.message_ttl_seconds is not null then
    for lane in select coalesce(i.priority, 0)::smallint as priority,
      bool_and(coalesce(i.ttl, q.message_ttl_seconds) is null) as plain
        from unnest(payloads, payloads_bytes, spark_put.priorities, ttls) i (payload, payload_bytes, priority, ttl)
          group by 1 loop
      if lane.priority <> all (q.priorities) or q.plain and not lane.plain then
        perform penstock._widen(q, penstock._lane_bits(lane.priority, lane.plain));
      end if;
    end loop;
  end if;
  perform penstock._announce_put(q.id, p, coalesce(pg_sequence_last_value('penstock.position'), 0) + 1)
  from unnest((penstock._with_lanes(q)).priorities) p;
  if came.later then
    perform penstock._announce('soon ' || q.id, 'scheduled', q.id,
      at_position => (date_part('epoch', clock_timestamp()) * 1e6)::bigint);
  end if;
  slot := penstock._hold_current();
  if not came.later and coalesce(greatest(came.json_size, came.bytes_size), 0) <= 1000 then
    --: branch on slot
    insert into penstock.ready_{slot} (position, id, enqueued_at, expires_at, queue_id, priority, attempt, max_attempts,
      headers, payload, payload_bytes)
    select n.id, n.id, started, started + make_interval(secs => coalesce(n.ttl, q.message_ttl_seconds)), q.id,
      coalesce(n.priority, 0), 0, coalesce(n.max_attempts, q.max_attempts), n.headers, n.payload, n.payload_bytes
    from (
      select nextval('penstock.position') as id, i.*
      from unnest(payloads, payloads_bytes, spark_put.headers, spark_put.priorities, ttls, spark_put.max_attempts)
           i (payload, payload_bytes, headers, priority, ttl, max_attempts)
      offset 0) n;
    --: end
  else
    --: branch on slot
    with incoming as materialized (
      select nextval('penstock.position') as id, i.headers, i.payload, i.payload_bytes,
        coalesce(i.priority, 0)::smallint as priority,
        coalesce(i.max_attempts, q.max_attempts)::smallint as max_attempts,
        started + make_interval(secs => coalesce(i.ttl, q.message_ttl_seconds)) as expires_at,
        case when i.visible_at > started then i.visible_at when i.delay > 0
          then started + make_interval(secs => i.delay) end as due_at,
        case when greatest(pg_column_size(i.payload), octet_length(i.payload_bytes)) > 1000 then {slot}::smallint end
          as body_slot
      from unnest(payloads, payloads_bytes, spark_put.headers, spark_put.priorities, delays, visible_ats, ttls,
        spark_put.max_attempts)
           i (payload, payload_bytes, headers, priority, delay, visible_at, ttl, max_attempts)),
    bodies as (
      insert into penstock.body_{slot} (id, payload, payload_bytes) select i.id, i.payload, i.payload_bytes
        from incoming i where i.body_slot is not null),
    later as (
      insert into penstock.scheduled (due_at, id, enqueued_at, expires_at, queue_id, priority, attempt, max_attempts,
        body_slot, headers, payload, payload_bytes)
      select i.due_at, i.id, started, i.expires_at, q.id, i.priority, 0, i.max_attempts, i.body_slot, i.headers,
        case when i.body_slot is null then i.payload end, case when i.body_slot is null then i.payload_bytes end
      from incoming i where i.due_at is not null)
    insert into penstock.ready_{slot} (position, id, enqueued_at, expires_at, queue_id, priority, attempt, max_attempts,
      body_slot, headers, payload, payload_bytes)
    select i.id, i.id, started, i.expires_at, q.id, i.priority, 0, i.max_attempts, i.body_slot, i.headers,
      case when i.body_slot is null then i.payload end, case when i.body_slot is null then i.payload_bytes end
    from incoming i where i.due_at is null;
    --: end
  end if;
  if {ring.current({ring.value})} <> slot then
    perform penstock._put_beside(slot, q.id, p) from unnest((penstock._with_lanes(q)).priorities) p;
  end if;
  if pg_sequence_last_value('penstock.position') >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
  if not penstock._in_block() then
    perform penstock._wake_waiters(q, null);
  end if;
end $$;
