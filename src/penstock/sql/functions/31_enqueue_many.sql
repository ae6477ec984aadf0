-- Puts many messages into a queue: parallel arrays, all or nothing, ids in the order given. What applies to no message
-- may be left out; a NULL in an array is that message's default.
select penstock._unroll($unroll$
create or replace function penstock.enqueue_many(
  queue text, payloads jsonb[] default null, payloads_bytes bytea[] default null, headers jsonb[] default null, keys text[] default null,
  priorities integer[] default null, group_keys text[] default null, delays interval[] default null, visible_ats timestamptz[] default null,
  ttls interval[] default null, max_attempts integer[] default null, on_conflict text default 'replace', unique_while text default 'waiting')
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  largest integer;
  given   integer;
  q       penstock.queue;
  slot integer;
begin
  select * into q from penstock.queue t where t.name = enqueue_many.queue;
  select max(pg_column_size(p)), count(p) into largest, given from unnest(payloads) p;
  -- The plain batch goes in with one statement; all else message by message.
  if q.id is null or q.message_ttl_seconds is not null or q.max_depth is not null or q.max_payload_bytes < 8192 or largest > 1000
     or given <> cardinality(payloads) or given not between 1 and 10000 or 0 <> all (q.priorities)
     or on_conflict <> 'replace' or unique_while <> 'waiting'
     or not (payloads_bytes, enqueue_many.headers, keys, enqueue_many.priorities, group_keys, delays, visible_ats, ttls, enqueue_many.max_attempts) is null then
    return query select * from penstock._enqueue_each(enqueue_many.queue, payloads, payloads_bytes, enqueue_many.headers, keys, enqueue_many.priorities,
      group_keys, delays, visible_ats, ttls, enqueue_many.max_attempts, on_conflict, unique_while);
    return;
  end if;
  slot := penstock._hold_current();
  --[ slot
      return query
    insert into penstock.ready_{slot} (id, position, enqueued_at, queue_id, priority, attempt, max_attempts, payload)
    select nextval('penstock.position'), currval('penstock.position'), started, q.id, 0, 0, q.max_attempts, p from unnest(payloads) p
    returning id;
  --]
  if currval('penstock.position') >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
end $$;
$unroll$);

create or replace function penstock._enqueue_each(
  queue text, payloads jsonb[], payloads_bytes bytea[], headers jsonb[], keys text[], priorities integer[], group_keys text[],
  delays interval[], visible_ats timestamptz[], ttls interval[], max_attempts integer[], on_conflict text, unique_while text)
returns setof bigint language plpgsql as $$
declare
  n integer := greatest(cardinality(payloads), cardinality(payloads_bytes));
  m record;
begin
  if not coalesce(n between 1 and 10000, false) then
    perform penstock._fail_value('payloads', coalesce(n, 0) || ' messages', '1 to 10000 messages a call');
  end if;
  if exists (select from (values (cardinality(payloads)), (cardinality(payloads_bytes)), (cardinality(headers)), (cardinality(keys)), (cardinality(priorities)),
      (cardinality(group_keys)), (cardinality(delays)), (cardinality(visible_ats)), (cardinality(ttls)), (cardinality(max_attempts))) c (size) where c.size <> n) then
    perform penstock._fail_value('payloads', 'arrays of different lengths', format('arrays of equal length, here %s', n));
  end if;
  for m in select * from unnest(payloads, payloads_bytes, headers, keys, priorities, group_keys, delays, visible_ats, ttls, max_attempts)
           u (payload, payload_bytes, headers, key, priority, group_key, delay, visible_at, ttl, max_attempts) loop
    return next penstock._enqueue_checked(queue, m.payload, m.payload_bytes, m.headers, m.key, coalesce(m.priority, 0), m.group_key, m.delay,
                                          m.visible_at, m.ttl, m.max_attempts, on_conflict, unique_while);
  end loop;
end $$;
