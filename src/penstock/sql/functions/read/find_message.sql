-- find_message returns one message by its id, as the view penstock.messages shows it, or nothing if it does not exist
-- or is finished.
--
-- Scheduled messages, messages of groups and dead letters have an index on the id. In a lane, the position of a
-- message that never became ready again is its id, which lane_N_order finds: a few microseconds for each lane.
-- lane_N_back finds the others. Only messages that a claim has moved to leased_N are found by a scan of
-- leased_N; without thorough, only if those tables have less than 32 MB. One snapshot for all of it, so that a message
-- that moves meanwhile is not missed. Locks: ACCESS SHARE.
create or replace function penstock._locate_in_lane(wanted bigint)
returns table (visible_at timestamptz, lease_until timestamptz, m penstock.envelope)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
begin
  --: for each segment
  return query select t.enqueued_at, null::timestamptz,
    ({envelope.columns(t)})::penstock.envelope
    from penstock.queue q cross join unnest(case when q.lane_bits = pg_sequence_last_value(q.lanes_register)
      then q.priorities else (penstock._with_lanes(q)).priorities end) rank join penstock.ready_{slot} t
      on t.queue_id = q.id and t.priority = rank and t.position = wanted
    where t.id = wanted and t.group_key is null;
  if found then return; end if;
  return query select t.lease_until, t.lease_until,
    ({envelope.columns(t)})::penstock.envelope
    from penstock.queue q cross join unnest(case when q.lane_bits = pg_sequence_last_value(q.lanes_register)
      then q.priorities else (penstock._with_lanes(q)).priorities end) rank join penstock.held_{slot} t
      on t.queue_id = q.id and t.priority = rank and t.position = wanted
    where t.id = wanted;
  if found then return; end if;
  return query select t.enqueued_at, null::timestamptz,
    ({envelope.columns(t)})::penstock.envelope
    from penstock.ready_{slot} t where t.id = wanted and t.position <> t.id and t.group_key is null;
  if found then return; end if;
  return query select t.lease_until, t.lease_until,
    ({envelope.columns(t)})::penstock.envelope
    from penstock.held_{slot} t where t.id = wanted and t.position <> t.id;
  if found then return; end if;
  --: end
end $$;

-- Finds a message, and returns the time at which it is or was visible, and the end of its lease. Locks: ACCESS SHARE.
-- Uses scheduled_id, grouped_id, dead_pkey and lane_N_order, otherwise scans.
create or replace function penstock._locate(wanted bigint, thorough boolean)
returns table (visible_at timestamptz, lease_until timestamptz, m penstock.envelope) language plpgsql stable as $$
declare
  short constant bigint := 32 * 1024 * 1024;
  q     record;
begin
  return query select t.due_at, null::timestamptz,
    ({envelope.columns(t)})::penstock.envelope
    from penstock.scheduled t where t.id = wanted and t.group_key is null;
  if found then return; end if;
  return query select t.visible_at, null::timestamptz, penstock._envelope(t) from penstock.grouped t
    where t.id = wanted;
  if found then return; end if;
  return query select t.dead_at, null::timestamptz,
    ({envelope.columns(t)})::penstock.envelope
    from penstock.dead t where t.id = wanted;
  if found then return; end if;
  return query select t.visible_at, t.lease_until, t.m from penstock._locate_in_lane(wanted) t;
  if found then return; end if;
  if thorough or 0
    --: for each segment
    + pg_relation_size('penstock.leased_{slot}')
    --: end
    < short then
    --: for each segment
    return query select t.lease_until, t.lease_until,
      ({envelope.columns(t)})::penstock.envelope
      from penstock.leased_{slot} t where t.id = wanted;
    if found then return; end if;
    --: end
  end if;
end $$;

-- find_message: see the top of this file. Locks: ACCESS SHARE. Indexes: as _locate.
create or replace function penstock.find_message(id bigint, thorough boolean default true)
returns table (id bigint, queue text, state text, payload jsonb, payload_bytes bytea, headers jsonb, key text,
               priority integer, group_key text, attempt integer, max_attempts integer, enqueued_at timestamptz,
               visible_at timestamptz, expires_at timestamptz, first_claimed_at timestamptz, claimed_at timestamptz,
               lease_until timestamptz, worker text, last_error text, dead_at timestamptz,
               original_queue text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select m.id, q.name || case when m.dead_at is null then '' else '.dlq' end,
    case when f.lease_until > clock_timestamp() then 'leased' when m.dead_at is not null then 'dead'
         when f.lease_until is null and f.visible_at > clock_timestamp() then 'scheduled' else 'ready' end,
    case when m.body_slot is null then m.payload else penstock._body_json(m.body_slot, m.id) end,
    case when m.body_slot is null then m.payload_bytes else penstock._body_bytes(m.body_slot, m.id) end,
    m.headers, m.key, m.priority::integer, m.group_key, m.attempt::integer, m.max_attempts::integer, m.enqueued_at,
      f.visible_at, m.expires_at,
    m.first_claimed_at, m.claimed_at, f.lease_until, m.worker, m.last_error, m.dead_at, case when m.dead_at is not null
      then q.name end
  from penstock._locate(find_message.id, thorough) f, lateral (select (f.m).*) m, penstock.queue q
  where q.id = m.queue_id
$$;
