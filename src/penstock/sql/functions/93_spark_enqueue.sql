-- Spark as a producer. A task copies the messages of its partition into the temporary table penstock_incoming (see
-- sql/lake/incoming.sql) and calls spark_enqueue in the same transaction.

-- Enqueues what was copied in, unless this partition of this write was enqueued before. Returns how many messages that
-- were, and whether they had been there already. Locks: the partition's row in spark_written; of each queue, as enqueue.
create or replace function penstock.spark_enqueue(
  job text, epoch bigint, part integer, queue text default null, on_conflict text default 'replace', unique_while text default 'waiting',
  out enqueued bigint, out repeated boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
declare
  sum_of_hashes bigint;
  before        penstock.spark_written;
  came          jsonb;
  part_of_it    jsonb;
begin
  -- Everything that has to be known of them, in one pass. The sum of hashes is the same whatever the order: Spark may
  -- bring the rows of a partition in another one.
  select coalesce(sum(c.total), 0), coalesce(sum(c.hashes) % 9223372036854775807, 0)::bigint, coalesce(jsonb_agg(to_jsonb(c)), '[]')
  into enqueued, sum_of_hashes, came
  from (
    select coalesce(i.queue, spark_enqueue.queue) as queue, count(*) as total, count(*) filter (where i.key is null and i.group_key is null) as plain,
      sum(case when (i.queue, i.payload_bytes, i.headers, i.key, i.priority, i.group_key, i.delay_seconds, i.visible_at, i.ttl_seconds, i.max_attempts) is null
               then jsonb_hash_extended(i.payload, 0)
               else hash_record_extended((i.queue, i.payload_bytes, i.headers, i.key, i.priority, i.group_key, i.delay_seconds, i.visible_at, i.ttl_seconds,
                                          i.max_attempts), coalesce(jsonb_hash_extended(i.payload, 0), 0)) end) as hashes,
      max(pg_column_size(i.payload)) as json_size, max(octet_length(i.payload_bytes)) as bytes_size,
      bool_or((i.payload is null) = (i.payload_bytes is null) or i.headers is not null or i.priority not between -9 and 9
              or i.max_attempts not between 1 and 100 or i.delay_seconds is not null or i.visible_at is not null or i.ttl_seconds is not null) as doubtful,
      coalesce(bool_or(i.delay_seconds > 0 or i.visible_at is not null), false) as later,
      coalesce(min(i.priority) <> 0 or max(i.priority) <> 0 or min(i.ttl_seconds) > 0, false) as lanes
    from pg_temp.penstock_incoming i group by 1) c;
  repeated := exists (select from penstock.spark_written w where w.job = spark_enqueue.job and w.epoch = spark_enqueue.epoch and w.part = -1);
  if repeated then
    return;
  end if;
  insert into penstock.spark_written (job, epoch, part, count, checksum) values (job, epoch, part, enqueued, sum_of_hashes) on conflict do nothing;
  if not found then
    select * into before from penstock.spark_written w where w.job = spark_enqueue.job and w.epoch = spark_enqueue.epoch and w.part = spark_enqueue.part;
    if (before.count, before.checksum) <> (enqueued, sum_of_hashes) then
      perform penstock._fail('PS004', format('partition %s of write %L (epoch %s) was enqueued before, with other rows: %s then, %s now', part, job, epoch,
          before.count, enqueued),
        jsonb_build_object('field', 'job', 'value', job, 'part', part),
        'Nothing was enqueued now. A write that is repeated has to have the same rows in the same partitions: sort or save them first, or use another job.');
    end if;
    repeated := true;
    return;
  end if;
  for part_of_it in select jsonb_array_elements(came) loop
    perform penstock._spark_put(part_of_it ->> 'queue', part_of_it ->> 'queue' is not distinct from spark_enqueue.queue, part_of_it, on_conflict, unique_while);
  end loop;
end $$;

-- The write is complete: from now on, all of it counts as enqueued before. Of a stream, only the last few are remembered.
create or replace function penstock.spark_complete(job text, epoch bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.spark_written (job, epoch, part, count, checksum)
  select spark_complete.job, spark_complete.epoch, -1, coalesce(sum(w.count), 0), 0 from penstock.spark_written w
  where w.job = spark_complete.job and w.epoch = spark_complete.epoch and w.part >= 0 on conflict do nothing;
  delete from penstock.spark_written w where w.job = spark_complete.job and (w.epoch < spark_complete.epoch - 10 or w.epoch = spark_complete.epoch and w.part >= 0);
$$;

-- All that came in for one queue, and what spark_enqueue has seen of it; is_default: those without a queue of their own, too.
drop function if exists penstock._spark_put(text, boolean, text, text);
create or replace function penstock._spark_put(name text, is_default boolean, seen jsonb, on_conflict text, unique_while text) returns void language plpgsql as $$
#variable_conflict use_column
declare
  q       penstock.queue;
  came    record;
  special boolean;
  blocks  bigint;
  step    bigint;
  lane    record;
  m       record;
begin
  select * into q from penstock.queue t where t.name = _spark_put.name;
  if not found then
    perform penstock._check_name(name);
    perform penstock._fail_unknown_queue(name);
  end if;
  select * into came from jsonb_to_record(seen) c (total bigint, plain bigint, json_size bigint, bytes_size bigint, doubtful boolean, later boolean, lanes boolean);
  if came.doubtful or greatest(came.json_size * 6, came.bytes_size) > q.max_payload_bytes then
    perform penstock._check_message(q, i.payload, i.payload_bytes, i.headers, i.key, coalesce(i.priority, 0), i.group_key,
      make_interval(secs => i.delay_seconds), i.visible_at, make_interval(secs => i.ttl_seconds), i.max_attempts)
    from pg_temp.penstock_incoming i where i.queue = q.name or i.queue is null and is_default;
  end if;
  special := came.later or greatest(came.json_size, came.bytes_size) > 1000;
  if came.plain > 0 then
    if q.max_depth is not null then
      perform penstock._reserve_depth(q, came.plain::integer);
    end if;
    if came.lanes or q.message_ttl_seconds is not null then
      for lane in select coalesce(i.priority, 0)::smallint as priority, bool_and(coalesce(i.ttl_seconds, q.message_ttl_seconds) is null) as plain
          from pg_temp.penstock_incoming i where (i.queue = q.name or i.queue is null and is_default) and i.key is null and i.group_key is null group by 1 loop
        if lane.priority <> all (q.priorities) or q.plain and not lane.plain then
          perform penstock._widen(q, penstock._lane_bits(lane.priority, lane.plain));
        end if;
      end loop;
    end if;
    perform penstock._announce_put(q.id, p, coalesce(pg_sequence_last_value('penstock.position'), 0) + 1)
    from unnest((penstock._with_lanes(q)).priorities) p;
    if came.later then
      perform penstock._announce('soon ' || q.id, 'scheduled', q.id, at_position => (date_part('epoch', clock_timestamp()) * 1e6)::bigint);
    end if;
    -- About ten thousand at a time, so that the ring can turn in between; they lie in the order in which they came.
    blocks := pg_relation_size('pg_temp.penstock_incoming') / current_setting('block_size')::integer;
    step := greatest(1, blocks * 10000 / came.total);
    for block in 0 .. blocks - 1 by step loop
      perform penstock._spark_put_piece(q, is_default, special, format('(%s,0)', block)::tid, format('(%s,0)', block + step)::tid);
    end loop;
    if not penstock._in_block() then
      perform penstock._wake_waiters(q, null);
    end if;
  end if;
  if came.plain < came.total then
    for m in select * from pg_temp.penstock_incoming i
        where (i.queue = q.name or i.queue is null and is_default) and (i.key is not null or i.group_key is not null) order by i.ctid loop
      perform penstock._enqueue_checked(q.name, m.payload, m.payload_bytes, m.headers, m.key, coalesce(m.priority, 0), m.group_key,
        make_interval(secs => m.delay_seconds), m.visible_at, make_interval(secs => m.ttl_seconds), m.max_attempts, on_conflict, unique_while);
    end loop;
  end if;
end $$;

select penstock._unroll($unroll$
-- Messages without key and group. special: some are scheduled, or have their payload beside them.
create or replace function penstock._spark_put_piece(q penstock.queue, is_default boolean, special boolean, first_at tid, end_at tid) returns void language plpgsql as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  slot    integer := penstock._hold_current();
begin
  if not special then
    --[ slot
    insert into penstock.ready_{slot} (position, id, enqueued_at, expires_at, queue_id, priority, attempt, max_attempts, headers, payload, payload_bytes)
    select n.id, n.id, started, started + make_interval(secs => coalesce(n.ttl_seconds, q.message_ttl_seconds)), q.id, coalesce(n.priority, 0), 0,
      coalesce(n.max_attempts, q.max_attempts), n.headers, n.payload, n.payload_bytes
    from (
      select nextval('penstock.position') as id, i.ttl_seconds, i.priority, i.max_attempts, i.headers, i.payload, i.payload_bytes
      from pg_temp.penstock_incoming i
      where i.ctid >= first_at and i.ctid < end_at and (i.queue = q.name or i.queue is null and is_default) and i.key is null and i.group_key is null
      offset 0) n;
    --]
  else
    --[ slot
    with incoming as materialized (
      select nextval('penstock.position') as id, i.headers, i.payload, i.payload_bytes, coalesce(i.priority, 0)::smallint as priority,
        coalesce(i.max_attempts, q.max_attempts)::smallint as max_attempts,
        started + make_interval(secs => coalesce(i.ttl_seconds, q.message_ttl_seconds)) as expires_at,
        case when i.visible_at > started then i.visible_at when i.delay_seconds > 0 then started + make_interval(secs => i.delay_seconds) end as due_at,
        case when greatest(pg_column_size(i.payload), octet_length(i.payload_bytes)) > 1000 then {slot}::smallint end as body_slot
      from pg_temp.penstock_incoming i
      where i.ctid >= first_at and i.ctid < end_at and (i.queue = q.name or i.queue is null and is_default) and i.key is null and i.group_key is null),
    bodies as (
      insert into penstock.body_{slot} (id, payload, payload_bytes) select i.id, i.payload, i.payload_bytes from incoming i where i.body_slot is not null),
    later as (
      insert into penstock.scheduled (due_at, id, enqueued_at, expires_at, queue_id, priority, attempt, max_attempts, body_slot, headers, payload, payload_bytes)
      select i.due_at, i.id, started, i.expires_at, q.id, i.priority, 0, i.max_attempts, i.body_slot, i.headers,
        case when i.body_slot is null then i.payload end, case when i.body_slot is null then i.payload_bytes end
      from incoming i where i.due_at is not null)
    insert into penstock.ready_{slot} (position, id, enqueued_at, expires_at, queue_id, priority, attempt, max_attempts, body_slot, headers, payload, payload_bytes)
    select i.id, i.id, started, i.expires_at, q.id, i.priority, 0, i.max_attempts, i.body_slot, i.headers,
      case when i.body_slot is null then i.payload end, case when i.body_slot is null then i.payload_bytes end
    from incoming i where i.due_at is null;
    --]
  end if;
  if pg_sequence_last_value('penstock.ring') % 10 <> slot then
    perform penstock._put_beside(slot, q.id, p) from unnest((penstock._with_lanes(q)).priorities) p;
  end if;
  if pg_sequence_last_value('penstock.position') >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
end $$;
$unroll$);
