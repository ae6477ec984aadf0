-- Puts many messages into a queue: parallel arrays, all or nothing, ids in the order given. An array that applies to no
-- message may be left out, and a NULL in an array is the default of that message. Locks and indexes: as enqueue.
create or replace function penstock.enqueue_many(
  queue text, payloads jsonb[] default null, payloads_bytes bytea[] default null, headers jsonb[] default null,
    keys text[] default null,
  priorities integer[] default null, group_keys text[] default null, delays interval[] default null,
    visible_ats timestamptz[] default null,
  ttls interval[] default null, max_attempts integer[] default null, on_conflict text default 'replace',
    unique_while text default 'waiting')
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  started  timestamptz := clock_timestamp();
  slot     integer := {ring.current({ring.value})};
  -- -1 in a transaction block: see _in_block. PostgreSQL reads the payloads between the beginning of a transaction in
  -- autocommit and that of its statement, at 3 to 13 microseconds a kilobyte: a hundred of 200 bytes take 80 to 260.
  over     bigint := case when statement_timestamp() > transaction_timestamp()
    + interval '1 microsecond' * (30 + coalesce(pg_column_size(payloads), 0) / 50)
                            or pg_current_xact_id_if_assigned() is not null
                          then -1 else {register.value('penstock.flips_over')} end;
  high     bigint := coalesce(pg_sequence_last_value('penstock.position'), 0);
  n        integer := 0;
begin
  -- A plain batch is inserted by one statement, if all of it is plain. Other messages are enqueued one by one.
  if (payloads_bytes, enqueue_many.headers, keys, enqueue_many.priorities, group_keys, delays, visible_ats, ttls,
    enqueue_many.max_attempts) is null
     and cardinality(payloads) <= {limit.messages} and on_conflict = 'replace' and unique_while = 'waiting' then
    --: branch on slot
    return query
    insert into penstock.lane_{slot} (id, position, enqueued_at, queue_id, priority, attempt, max_attempts, payload)
    select p.id, p.id, started, q.id, 0, 0, q.max_attempts, p.payload
    -- The reference to q makes PostgreSQL evaluate its conditions, and so take its lock, before the first position is
    -- taken.
    from penstock.queue q cross join lateral (
      select nextval('penstock.position') as id, u as payload from unnest(payloads) u where q.id is not null offset 0) p
    where q.name = enqueue_many.queue and q.plain_in and 0 = any (q.priorities)
      and (over < 0 or pg_try_advisory_xact_lock_shared({lock.generation}
        + {generation.current({register.value(q.generation_register)})}::integer, q.id))
      and case when over >= 0 and pg_sequence_last_value(q.notify_register) <= date_part('epoch', started) * 1e6
               then penstock._wake(q.notify_register, q.waiting_register, q.name) else true end
      and not exists (select from unnest(payloads) x
        where x is null or pg_column_size(x) > {payload.inline_bytes}
          or octet_length(x::text) > {payload.inline_text_bytes})
    returning id;
    --: end
    get diagnostics n = row_count;
  end if;
  if n = 0 then
    return query select * from penstock._enqueue_each(enqueue_many.queue, payloads, payloads_bytes,
      enqueue_many.headers, keys, enqueue_many.priorities, group_keys, delays, visible_ats, ttls,
      enqueue_many.max_attempts, on_conflict, unique_while);
    return;
  end if;
  if {register.value('penstock.flips_begun')} <> over then
    perform penstock._announce_put(q.id, 0, high + 1) from penstock.queue q where q.name = enqueue_many.queue;
  end if;
  if slot <> {ring.current({ring.value})} or currval('penstock.position')
    >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotated_many(slot, enqueue_many.queue);
  end if;
end $$;

-- After enqueue_many has put messages into a segment that is no longer the current one, or that is full. Locks: the
-- rows, if they are put in again. Scans the segment in that case. Uses queue_name_key.
create or replace function penstock._rotated_many(slot integer, queue text) returns void language plpgsql as $$
declare
  stray bigint[];
begin
  if not slot = any (penstock._used_slots()) then
    --: branch on slot
    stray := array(select id from penstock.ready_{slot} order by position);
    --: end
    perform penstock._put_again(slot, id) from unnest(stray) id;
  elsif {ring.current({ring.value})} <> slot then
    perform penstock._put_beside(slot, q.id, 0) from penstock.queue q where q.name = _rotated_many.queue;
  end if;
  perform penstock._rotate();
end $$;

-- Enqueues the messages of a batch one by one. Locks and indexes: as enqueue, for each message.
create or replace function penstock._enqueue_each(
  queue text, payloads jsonb[], payloads_bytes bytea[], headers jsonb[], keys text[], priorities integer[],
    group_keys text[],
  delays interval[], visible_ats timestamptz[], ttls interval[], max_attempts integer[], on_conflict text,
    unique_while text)
returns setof bigint language plpgsql as $$
declare
  n integer := greatest(cardinality(payloads), cardinality(payloads_bytes));
  m record;
begin
  if queue ^@ 'penstock.' then perform penstock._check_internal(queue); end if;
  if not coalesce(n between 1 and {limit.messages}, false) then
    perform penstock._fail_value('payloads', coalesce(n, 0) || ' messages', '1 to {limit.messages} messages a call');
  end if;
  if exists (select from (values (cardinality(payloads)), (cardinality(payloads_bytes)), (cardinality(headers)),
      (cardinality(keys)), (cardinality(priorities)), (cardinality(group_keys)), (cardinality(delays)),
      (cardinality(visible_ats)), (cardinality(ttls)), (cardinality(max_attempts))) c (size) where c.size <> n) then
    perform penstock._fail_value('payloads', 'arrays of different lengths',
      format('arrays of equal length, here %s', n));
  end if;
  for m in select * from unnest(payloads, payloads_bytes, headers, keys, priorities, group_keys, delays, visible_ats,
    ttls, max_attempts)
           u (payload, payload_bytes, headers, key, priority, group_key, delay, visible_at, ttl, max_attempts) loop
    return next penstock._enqueue_checked(queue, m.payload, m.payload_bytes, m.headers, m.key, coalesce(m.priority, 0),
                                          m.group_key, m.delay, m.visible_at, m.ttl, m.max_attempts, on_conflict,
                                          unique_while);
  end loop;
end $$;
