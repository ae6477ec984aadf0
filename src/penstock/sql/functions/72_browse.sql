-- Looks through the messages of one state, a page at a time, along an index, from where the page before ended. A look is
-- bounded: it ends after `look` messages, whether the page is full or not. The last row has no id: it says how many
-- messages were looked at, and in `place` where to go on from; null there is the end.
--
-- queues: those to look into; null is all. A state that is spread over several tables is looked through one after the
-- other. No locks but ACCESS SHARE.
create or replace function penstock.browse(state text, queues text[] default null, filter penstock.sight_filter default null, place text default null,
                                           page integer default 50, look integer default 10000)
returns setof penstock.sighting language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  parts constant text[] := case
    when state = 'ready' and filter.key is not null then array['ready with key', 'lapsed']
    when state = 'ready' then array['lanes', 'due', 'due in groups', 'lapsed']
    when state = 'scheduled' and filter.key is not null then array['scheduled with key']
    when state = 'scheduled' then array['delayed', 'delayed in groups']
    when state = 'leased' then array['leased']
    when state = 'dead' then array['dead', 'dead and claimed']
    when state in ('finished', 'done', 'expired', 'cancelled', 'superseded') then array['finished'] end;
  part   text := coalesce(split_part(place, '/', 1), parts[1]);
  inside text := nullif(substr(place, strpos(place, '/') + 1), '');
  ids    integer[];
  seen   integer := 0;
  s      penstock.sighting;
begin
  if parts is null then
    perform penstock._fail_value('state', state, 'ready, scheduled, leased, dead, finished, done, expired, cancelled or superseded');
  elsif page not between 1 and 10000 or page is null then
    perform penstock._fail_value('page', page::text, '1 to 10000');
  elsif look not between 1 and 1000000 or look is null then
    perform penstock._fail_value('look', look::text, '1 to 1000000');
  elsif part <> all (parts) then
    perform penstock._fail_value('place', place, 'the place of a row of the page before');
  end if;
  ids := (select array_agg(q.id) from penstock.queue q where q.name = any (queues));
  for i in array_position(parts, part) .. cardinality(parts) loop
    part := parts[i];
    for s in select * from penstock._browse(part, state, queues, ids, filter, inside, page, look) loop
      if s.id is not null then
        s.place := part || '/' || s.place;
        page := page - 1;
        return next s;
      end if;
    end loop;
    -- Here s is the last row.
    seen := seen + s.looked;
    look := look - s.looked;
    inside := s.place;
    exit when inside is not null;
    if (page = 0 or look <= 0) and i < cardinality(parts) then
      part := parts[i + 1];
      inside := '';
      exit;
    end if;
  end loop;
  s := null;
  s.looked := seen;
  s.place := part || '/' || inside;
  return next s;
exception when invalid_text_representation or datetime_field_overflow or invalid_datetime_format or numeric_value_out_of_range then
  perform penstock._fail_value('place', place, 'the place of a row of the page before');
end $$;

-- One part of it.
create or replace function penstock._browse(part text, state text, queues text[], ids integer[], filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable as $$
begin
  case part
    when 'ready with key', 'scheduled with key' then return query select * from penstock._browse_keys(state, queues, filter, place, page, look);
    when 'lanes' then return query select * from penstock._browse_lanes(queues, filter, place, page, look);
    when 'due', 'delayed' then return query select * from penstock._browse_delays(part = 'due', ids, queues is null, filter, place, page, look);
    when 'due in groups', 'delayed in groups' then return query select * from penstock._browse_groups(part = 'due in groups', queues, filter, place, page, look);
    when 'leased', 'lapsed', 'dead and claimed' then return query select * from penstock._browse_leases(part, ids, queues is null, filter, place, page, look);
    when 'dead' then return query select * from penstock._browse_dead(ids, queues is null, filter, place, page, look);
    when 'finished' then return query select * from penstock._browse_history(nullif(state, 'finished'), queues, filter, place, page, look);
  end case;
end $$;

create or replace function penstock._matches(f penstock.sight_filter, key text, error text, worker text, enqueued_at timestamptz) returns boolean
language sql immutable as $$
  select (f.key is null or key = f.key) and (f.error is null or strpos(error, f.error) > 0) and (f.worker is null or worker = f.worker)
     and (f.enqueued_before is null or enqueued_at < f.enqueued_before) and (f.enqueued_after is null or enqueued_at >= f.enqueued_after)
$$;

-- A message as a line of the list.
create or replace function penstock._sighting(queue text, state text, m penstock.envelope, at timestamptz, place text) returns penstock.sighting
language sql immutable as $$
  select (m.id, queue || case when m.dead_at is null then '' else '.dlq' end, state, m.priority, m.attempt, m.max_attempts, m.enqueued_at, at, m.key, m.group_key,
          m.worker, left(m.last_error, 300),
          case when m.body_slot is not null then null when m.payload is not null then left(m.payload::text, 160) else octet_length(m.payload_bytes) || ' bytes' end,
          place, null)::penstock.sighting
$$;

-- The last row of a part.
create or replace function penstock._looked(place text, looked integer) returns penstock.sighting language sql immutable as $$
  select (null, null, null, null, null, null, null, null, null, null, null, null, null, place, looked)::penstock.sighting
$$;

-- A time in a place: without spaces, and the same whatever the session's settings.
create or replace function penstock._stamp(at timestamptz) returns text language sql immutable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

select penstock._unroll($unroll$
-- What is ready, in the order in which it is handed out, queue by queue. place: queue, priority, position. By lane_N_order, from
-- the floors on, which step over what is dead already.
create or replace function penstock._browse_lanes(queues text[], filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  from_queue    text := coalesce(split_part(place, ' ', 1), '');
  from_rank     integer := nullif(split_part(place, ' ', 2), '');
  from_position bigint := nullif(split_part(place, ' ', 3), '');
  q      penstock.queue;
  start  bigint;
  r      record;
  looked integer := 0;
begin
  for q in select * from penstock.queue t where (queues is null or t.name = any (queues)) and t.name >= from_queue order by t.name loop
    q := penstock._with_lanes(q);
    for lane in 1 .. cardinality(q.priorities) loop
      continue when q.name = from_queue and q.priorities[lane] > from_rank;
      start := case when q.name = from_queue and q.priorities[lane] = from_rank then from_position + 1 else coalesce(pg_sequence_last_value(q.floors[lane]), 0) end;
      for r in
        select * from (
          select 0::bigint as position, null::boolean as fits, null::penstock.envelope as m where false
          --[
          union all
          select t.position, penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at),
            (t.id, t.enqueued_at, t.expires_at, t.first_claimed_at, t.claimed_at, t.dead_at, t.queue_id, t.priority, t.attempt, t.max_attempts, t.body_slot,
             t.worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error)::penstock.envelope as m
          from penstock.ready_{slot} t where t.queue_id = q.id and t.priority = q.priorities[lane] and t.position >= start and t.group_key is null
          --]
        ) c order by c.position
      loop
        looked := looked + 1;
        place := concat_ws(' ', q.name, q.priorities[lane], r.position);
        if r.fits then
          return next penstock._sighting(q.name, 'ready', r.m, (r.m).enqueued_at, place);
          page := page - 1;
        end if;
        if page <= 0 or looked >= look then
          return next penstock._looked(place, looked);
          return;
        end if;
      end loop;
    end loop;
  end loop;
  return next penstock._looked(null, looked);
end $$;

-- What waits with a key: at most a few in each queue. place: queue, id. By the indexes on keys.
create or replace function penstock._browse_keys(state text, queues text[], filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_at     timestamptz := clock_timestamp();
  from_queue text := coalesce(split_part(place, ' ', 1), '');
  from_id    bigint := coalesce(split_part(place, ' ', 2)::bigint, -1);
  q      penstock.queue;
  r      record;
  looked integer := 0;
begin
  for q in select * from penstock.queue t where (queues is null or t.name = any (queues)) and t.name >= from_queue order by t.name loop
    for r in
      select c.*, penstock._matches(filter, (c.m).key, (c.m).last_error, (c.m).worker, (c.m).enqueued_at) as fits from (
        select t.due_at as visible_at, (t.id, t.enqueued_at, t.expires_at, t.first_claimed_at, t.claimed_at, t.dead_at, t.queue_id, t.priority, t.attempt, t.max_attempts, t.body_slot,
           t.worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error)::penstock.envelope as m
        from penstock.scheduled t where t.queue_id = q.id and t.key = filter.key and t.group_key is null
        union all
        select t.visible_at, penstock._envelope(t) from penstock.grouped t where t.queue_id = q.id and t.key = filter.key
        --[
        union all
        select t.enqueued_at, (t.id, t.enqueued_at, t.expires_at, t.first_claimed_at, t.claimed_at, t.dead_at, t.queue_id, t.priority, t.attempt, t.max_attempts, t.body_slot,
           t.worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error)::penstock.envelope
        from penstock.ready_{slot} t where t.queue_id = q.id and t.key = filter.key and t.group_key is null
        --]
      ) c where (c.visible_at > now_at) = (_browse_keys.state = 'scheduled') and (q.name > from_queue or (c.m).id > from_id)
      order by (c.m).id
    loop
      looked := looked + 1;
      place := q.name || ' ' || (r.m).id;
      if r.fits then
        return next penstock._sighting(q.name, _browse_keys.state, r.m, r.visible_at, place);
        page := page - 1;
      end if;
      if page <= 0 or looked >= look then
        return next penstock._looked(place, looked);
        return;
      end if;
    end loop;
  end loop;
  return next penstock._looked(null, looked);
end $$;

-- What is leased, by the end of its lease; what was, and is ready again ('lapsed'); dead letters that somebody claimed. place:
-- lease_until, id. By leased_N_until.
create or replace function penstock._browse_leases(part text, ids integer[], everywhere boolean, filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  now_at    timestamptz := clock_timestamp();
  from_time timestamptz := coalesce(split_part(place, ' ', 1)::timestamptz, case when part = 'leased' then now_at else '-infinity' end);
  from_id   bigint := coalesce(split_part(place, ' ', 2)::bigint, -1);
  to_time   timestamptz := case when part = 'lapsed' then now_at else 'infinity' end;
  r         record;
  looked    integer := 0;
begin
  for r in
    select c.lease_until, c.fits, c.m, case when c.fits then (select q.name from penstock.queue q where q.id = (c.m).queue_id) end as queue from (
      select now() as lease_until, 0::bigint as id, null::boolean as fits, null::penstock.envelope as m where false
      --[
      union all
      select t.lease_until, t.id, (everywhere or t.queue_id = any (ids)) and (t.dead_at is not null) = (part = 'dead and claimed')
          and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at),
        (t.id, t.enqueued_at, t.expires_at, t.first_claimed_at, t.claimed_at, t.dead_at, t.queue_id, t.priority, t.attempt, t.max_attempts, t.body_slot,
         t.worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error)::penstock.envelope as m
      from penstock.leased_{slot} t where t.lease_until >= from_time and t.lease_until <= to_time and (t.lease_until, t.id) > (from_time, from_id)
      union all
      select t.lease_until, t.id, (everywhere or t.queue_id = any (ids)) and part <> 'dead and claimed'
          and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at),
        (t.id, t.enqueued_at, t.expires_at, t.first_claimed_at, t.claimed_at, t.dead_at, t.queue_id, t.priority, t.attempt, t.max_attempts, t.body_slot,
         t.worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error)::penstock.envelope as m
      from penstock.grant_{slot} g join penstock.held_{slot} t
        on t.queue_id = g.queue_id and t.priority = g.priority and t.position between g.first_position and g.last_position and t.hold = g.hold
      where g.lease_until >= from_time and g.lease_until <= to_time and (g.lease_until, t.id) > (from_time, from_id)
      --]
    ) c order by c.lease_until, c.id
  loop
    looked := looked + 1;
    place := penstock._stamp(r.lease_until) || ' ' || (r.m).id;
    if r.fits then
      return next penstock._sighting(r.queue, case when r.lease_until > now_at then 'leased' when (r.m).dead_at is null then 'ready' else 'dead' end,
                                     r.m, r.lease_until, place);
      page := page - 1;
    end if;
    if page <= 0 or looked >= look then
      return next penstock._looked(place, looked);
      return;
    end if;
  end loop;
  return next penstock._looked(null, looked);
end $$;
$unroll$);

-- What is scheduled, by when it is due; what is due and not moved yet. place: due_at, id. By scheduled_due; for one queue by scheduled_queue.
create or replace function penstock._browse_delays(due boolean, ids integer[], everywhere boolean, filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  now_at    timestamptz := clock_timestamp();
  from_time timestamptz := coalesce(split_part(place, ' ', 1)::timestamptz, case when due then '-infinity' else now_at end);
  from_id   bigint := coalesce(split_part(place, ' ', 2)::bigint, -1);
  to_time   timestamptz := case when due then now_at else 'infinity' end;
  one       constant integer := case when cardinality(ids) = 1 then ids[1] end;
  r         record;
  looked    integer := 0;
begin
  for r in
    select t.due_at, (everywhere or t.queue_id = any (ids)) and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at) as fits,
      (t.id, t.enqueued_at, t.expires_at, t.first_claimed_at, t.claimed_at, t.dead_at, t.queue_id, t.priority, t.attempt, t.max_attempts, t.body_slot,
       t.worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error)::penstock.envelope as m,
      (select q.name from penstock.queue q where q.id = t.queue_id) as queue
    from penstock.scheduled t
    where t.due_at >= from_time and t.due_at <= to_time and (t.due_at, t.id) > (from_time, from_id) and t.group_key is null
      and (one is null or t.queue_id = one)
    order by t.due_at, t.id
  loop
    looked := looked + 1;
    place := penstock._stamp(r.due_at) || ' ' || (r.m).id;
    if r.fits then
      return next penstock._sighting(r.queue, case when due then 'ready' else 'scheduled' end, r.m, r.due_at, place);
      page := page - 1;
    end if;
    if page <= 0 or looked >= look then
      return next penstock._looked(place, looked);
      return;
    end if;
  end loop;
  return next penstock._looked(null, looked);
end $$;

-- The waiting messages of groups, in the order of each group, queue by queue. place: queue, position, group. By grouped_order.
create or replace function penstock._browse_groups(due boolean, queues text[], filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  now_at        timestamptz := clock_timestamp();
  from_queue    text := coalesce(split_part(place, ' ', 1), '');
  from_position bigint := coalesce(split_part(place, ' ', 2)::bigint, -1);
  from_group    text := coalesce(substr(place, length(from_queue) + length(from_position::text) + 3), '');
  q      penstock.queue;
  r      record;
  looked integer := 0;
begin
  for q in select * from penstock.queue t where (queues is null or t.name = any (queues)) and t.name >= from_queue order by t.name loop
    for r in
      select t.position, t.visible_at, (t.visible_at <= now_at) = due and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at) as fits,
             penstock._envelope(t) as m
      from penstock.grouped t
      where t.queue_id = q.id and (q.name > from_queue or t.group_key >= from_group) and (q.name > from_queue or (t.group_key, t.position) > (from_group, from_position))
      order by t.group_key, t.position
    loop
      looked := looked + 1;
      place := concat_ws(' ', q.name, r.position, (r.m).group_key);
      if r.fits then
        return next penstock._sighting(q.name, case when due then 'ready' else 'scheduled' end, r.m, r.visible_at, place);
        page := page - 1;
      end if;
      if page <= 0 or looked >= look then
        return next penstock._looked(place, looked);
        return;
      end if;
    end loop;
  end loop;
  return next penstock._looked(null, looked);
end $$;

-- Dead letters, the newest messages first. place: id. By the primary key; for one queue by dead_queue.
create or replace function penstock._browse_dead(ids integer[], everywhere boolean, filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  from_id bigint := coalesce(place::bigint, 9223372036854775807);
  one     constant integer := case when cardinality(ids) = 1 then ids[1] end;
  r       record;
  looked  integer := 0;
begin
  for r in
    select t.dead_at, (everywhere or t.queue_id = any (ids)) and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at) as fits,
      (t.id, t.enqueued_at, t.expires_at, t.first_claimed_at, t.claimed_at, t.dead_at, t.queue_id, t.priority, t.attempt, t.max_attempts, t.body_slot,
       t.worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error)::penstock.envelope as m,
      (select q.name from penstock.queue q where q.id = t.queue_id) as queue
    from penstock.dead t where t.id < from_id and (one is null or t.queue_id = one) order by t.id desc
  loop
    looked := looked + 1;
    place := (r.m).id;
    if r.fits then
      return next penstock._sighting(r.queue, 'dead', r.m, r.dead_at, place);
      page := page - 1;
    end if;
    if page <= 0 or looked >= look then
      return next penstock._looked(place, looked);
      return;
    end if;
  end loop;
  return next penstock._looked(null, looked);
end $$;

-- Finished messages, those that finished last first. place: xid, id. By history_log_xid.
create or replace function penstock._browse_history(state text, queues text[], filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  from_xid xid8 := coalesce(split_part(place, ' ', 1)::xid8, '18446744073709551615'::xid8);
  from_id  bigint := coalesce(split_part(place, ' ', 2)::bigint, 9223372036854775807);
  r        record;
  looked   integer := 0;
begin
  for r in
    select h.*, (_browse_history.state is null or h.state = _browse_history.state) and (queues is null or h.queue = any (queues))
                and penstock._matches(filter, h.key, h.last_error, h.worker, h.enqueued_at) as fits
    from penstock.history h where (h.xid, h.id) < (from_xid, from_id) order by h.xid desc, h.id desc
  loop
    looked := looked + 1;
    place := r.xid || ' ' || r.id;
    if r.fits then
      return next (r.id, r.queue, r.state, r.priority, r.attempts, r.max_attempts, r.enqueued_at, r.finished_at, r.key, r.group_key, r.worker, left(r.last_error, 300),
        case when r.payload is not null then left(r.payload::text, 160) else octet_length(r.payload_bytes) || ' bytes' end, place, null)::penstock.sighting;
      page := page - 1;
    end if;
    if page <= 0 or looked >= look then
      return next penstock._looked(place, looked);
      return;
    end if;
  end loop;
  return next penstock._looked(null, looked);
end $$;
