-- Puts a piece of a write, up to ten thousand messages without key and group, into its queue with a few statements for
-- all of them. They were checked when they were staged. Locks: as enqueue. Indexes: none.
create or replace function penstock._spark_put(q penstock.queue, p penstock.spark_staged) returns void language plpgsql
set jit = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  lane    record;
  slot    integer;
begin
  if q.max_depth is not null then
    perform penstock._reserve_depth(q, p.count);
  end if;
  if p.has_lanes or q.message_ttl_seconds is not null then
    for lane in select coalesce(i.priority, 0)::smallint as priority,
      bool_and(coalesce(i.ttl, q.message_ttl_seconds) is null) as plain
        from unnest(p.payloads, p.payloads_bytes, p.priorities, p.ttls) i (payload, payload_bytes, priority, ttl)
          group by 1 loop
      if lane.priority <> all (q.priorities) or q.plain and not lane.plain then
        perform penstock._widen(q, penstock._lane_bits(lane.priority, lane.plain));
      end if;
    end loop;
  end if;
  perform penstock._announce_put(q.id, l, coalesce(pg_sequence_last_value('penstock.position'), 0) + 1)
  from unnest((penstock._with_lanes(q)).priorities) l;
  if p.is_scheduled then
    perform penstock._announce('soon ' || q.id, 'scheduled', q.id,
      at_position => (date_part('epoch', clock_timestamp()) * 1e6)::bigint);
  end if;
  slot := penstock._lock_current();
  if (p.payloads_bytes, p.headers, p.priorities, p.delays, p.visible_ats, p.ttls, p.max_attempts,
    q.message_ttl_seconds) is null and p.largest <= {payload.inline_bytes} then
    -- Unnesting one array takes a third less time than six, of which five are null.
    --: branch on slot
    insert into penstock.ready_{slot} (position, id, enqueued_at, queue_id, priority, attempt, max_attempts, payload)
    select n.id, n.id, started, q.id, 0, 0, q.max_attempts, n.payload
    from (select nextval('penstock.position') as id, u as payload from unnest(p.payloads) u offset 0) n;
    --: end
  elsif not p.is_scheduled and p.largest <= {payload.inline_bytes} then
    --: branch on slot
    insert into penstock.ready_{slot} (position, id, enqueued_at, expires_at, queue_id, priority, attempt, max_attempts,
      headers, payload, payload_bytes)
    select n.id, n.id, started, started + make_interval(secs => coalesce(n.ttl, q.message_ttl_seconds)), q.id,
      coalesce(n.priority, 0), 0, coalesce(n.max_attempts, q.max_attempts), n.headers, n.payload, n.payload_bytes
    from (
      select nextval('penstock.position') as id, i.*
      from unnest(p.payloads, p.payloads_bytes, p.headers, p.priorities, p.ttls, p.max_attempts)
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
        case when greatest(pg_column_size(i.payload), octet_length(i.payload_bytes)) > {payload.inline_bytes}
          then {slot}::smallint end
          as body_slot
      from unnest(p.payloads, p.payloads_bytes, p.headers, p.priorities, p.delays, p.visible_ats, p.ttls,
        p.max_attempts)
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
    perform penstock._put_beside(slot, q.id, l) from unnest((penstock._with_lanes(q)).priorities) l;
  end if;
  if pg_sequence_last_value('penstock.position') >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
  if not penstock._in_block() then
    perform penstock._wake_waiters(q, null);
  end if;
end $$;
