-- Finds messages by a text in their key, group, worker, error, headers or payload, in every state and in history,
-- without regard to case. There is no index for that, so the tables are read block by block for `milliseconds`, or
-- until the page is full. The last row has no id; `place` says where to continue, and null there is the end. A message
-- that moves to another table between two calls can be missed.
--
-- queues: those to look into; null is all. payloads: whether payloads and headers are searched, too. Locks: ACCESS
-- SHARE. Scans ranges of ctid, without an index.
create or replace function penstock.search(wanted text, queues text[] default null, payloads boolean default true,
  place text default null, page integer default 50, milliseconds integer default 300)
returns setof penstock.sighting language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  pattern constant text := '%' || regexp_replace(wanted, '([\\%_])', '\\\1', 'g') || '%';
  until   constant timestamptz := clock_timestamp() + make_interval(secs => milliseconds / 1000.0);
  chunk   constant integer := 32;
  ids     constant integer[] := (select array_agg(q.id) from penstock.queue q where queues is null
    or q.name = any (queues));
  parts   text[];
  blocks  bigint[];
  from_part text := coalesce(split_part(place, '/', 1), 'scheduled');
  from_tid  tid;
  s         penstock.sighting;
  block     bigint;
begin
  if octet_length(wanted) not between 1 and {limit.key_bytes} or wanted is null then
    perform penstock._fail_value('wanted', wanted, '1 to {limit.key_bytes} bytes of text');
  elsif page not between 1 and {limit.messages} or page is null then
    perform penstock._fail_value('page', page::text, '1 to {limit.messages}');
  elsif milliseconds not between 1 and 60000 or milliseconds is null then
    perform penstock._fail_value('milliseconds', milliseconds::text, '1 to 60000');
  end if;
  from_tid := coalesce(split_part(place, '/', 2)::tid, '(0,0)');
  select array_agg(p.part), array_agg(p.blocks) into parts, blocks from penstock.search_parts() p;
  if from_part <> all (parts) then
    perform penstock._fail_value('place', place, 'the place of a row of the previous page');
  end if;
  for i in array_position(parts, from_part) .. cardinality(parts) loop
    block := split_part(trim('(' from from_tid::text), ',', 1);
    while block < blocks[i] loop
      if clock_timestamp() > until then
        return next penstock._page_end(parts[i] || '/' || from_tid, 0);
        return;
      end if;
      for s in select * from penstock._search_blocks(parts[i], pattern, ids, queues, payloads, from_tid,
        format('(%s,0)', block + chunk)::tid, page) loop
        from_tid := s.place;
        s.place := parts[i] || '/' || s.place;
        page := page - 1;
        return next s;
      end loop;
      if page <= 0 then
        return next penstock._page_end(parts[i] || '/' || from_tid, 0);
        return;
      end if;
      block := block + chunk;
      from_tid := format('(%s,0)', block);
    end loop;
    from_tid := '(0,0)';
  end loop;
  return next penstock._page_end(null, 0);
exception when invalid_text_representation or numeric_value_out_of_range then
  perform penstock._fail_value('place', place, 'the place of a row of the previous page');
end $$;

-- The tables that a search reads, in its order, with their states and sizes. Locks: none. Scans history_slot.
create or replace function penstock.search_parts() returns table (part text, state text, blocks bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select p.part, p.state, pg_relation_size(('penstock.' || p.part)::regclass)
    / current_setting('block_size')::bigint
  from (select 1 as turn, 0::bigint as nth, 'scheduled' as part, 'scheduled' as state
        union all select 2, 0, 'grouped', 'in groups'
        union all select 3, 0, 'dead', 'dead'
        union all select 4, n, 'leased_' || n, 'leased' from generate_series(0, {ring.last_segment}) n
        union all select 5, n, 'lane_' || n, 'ready' from generate_series(0, {ring.last_segment}) n
        union all select 6, row_number() over (order by h.begun_at desc), 'history_log_' || h.slot, 'history'
          from penstock.history_slot h) p
  order by p.turn, p.nth
$$;

-- Searches the rows of one table between two places. Locks: ACCESS SHARE. Scans a range of ctid, without an index.
--: define envelope_of(t) as
({t}.id, {t}.enqueued_at, {t}.expires_at, {t}.first_claimed_at, {t}.claimed_at, {t}.dead_at, {t}.queue_id, {t}.priority,
{t}.attempt, {t}.max_attempts, {t}.body_slot, {t}.worker, {t}.key, {t}.group_key, {t}.headers, {t}.payload,
{t}.payload_bytes, {t}.last_error)::penstock.envelope
--: end
--: define range(t) as {t}.ctid > from_tid and {t}.ctid < to_tid
--: define name(t) as (select q.name from penstock.queue q where q.id = {t}.queue_id)
create or replace function penstock._search_blocks(part text, pattern text, ids integer[], queues text[],
  payloads boolean, from_tid tid, to_tid tid, page integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := clock_timestamp();
  slot   constant integer := substring(part from '[0-9]+$');
  history_slot constant integer := slot;
begin
  if part = 'scheduled' then
    return query select s.* from penstock.scheduled t cross join lateral penstock._browse_row({name(t)},
      case when t.due_at > now_at then 'scheduled' else 'ready' end, {envelope_of(t)}, t.due_at, t.ctid::text) s
    where {range(t)} and t.group_key is null and t.queue_id = any (ids)
      and penstock._has_text({envelope_of(t)}, pattern, payloads) limit page;
  elsif part = 'grouped' then
    return query select s.* from penstock.grouped t cross join lateral penstock._browse_row({name(t)},
      case when t.visible_at > now_at then 'scheduled' else 'ready' end, {envelope_of(t)}, t.visible_at,
      t.ctid::text) s
    where {range(t)} and t.queue_id = any (ids) and penstock._has_text({envelope_of(t)}, pattern, payloads) limit page;
  elsif part = 'dead' then
    return query select s.* from penstock.dead t cross join lateral penstock._browse_row({name(t)}, 'dead',
      {envelope_of(t)}, t.dead_at, t.ctid::text) s
    where {range(t)} and t.queue_id = any (ids) and penstock._has_text({envelope_of(t)}, pattern, payloads) limit page;
  elsif part ^@ 'leased' then
    --: branch on slot
    return query select s.* from penstock.leased_{slot} t cross join lateral penstock._browse_row({name(t)},
      case when t.lease_until > now_at then 'leased' when t.dead_at is null then 'ready' else 'dead' end,
      {envelope_of(t)}, t.lease_until, t.ctid::text) s
    where {range(t)} and t.queue_id = any (ids) and penstock._has_text({envelope_of(t)}, pattern, payloads) limit page;
    --: end
  elsif part ^@ 'lane' then
    --: branch on slot
    return query select s.* from penstock.lane_{slot} t cross join lateral (
        select t.id, t.enqueued_at, t.expires_at, t.first_claimed_at, t.claimed_at, t.dead_at, t.queue_id, t.priority,
          case when t.hold = 0 then t.attempt else least(t.attempt + 1, {limit.attempt}) end::smallint as attempt,
          t.max_attempts, t.body_slot, case when t.hold = 0 then t.worker else (select g.worker
            from penstock.grant_{slot} g where g.lease_until = {hold.until(t.hold)} and g.hold = t.hold limit 1)
            end as worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error) e
      cross join lateral penstock._browse_row({name(t)}, case when t.hold <> 0 and {hold.until(t.hold)} > now_at
      then 'leased' else 'ready' end, {envelope_of(e)}, case when t.hold = 0 then t.enqueued_at
      else {hold.until(t.hold)} end, t.ctid::text) s
    where {range(t)} and t.group_key is null and t.queue_id = any (ids)
      and penstock._has_text({envelope_of(e)}, pattern, payloads) limit page;
    --: end
  else
    return query select t.id, t.queue, t.state, t.priority::integer, t.attempts::integer, t.max_attempts::integer,
      t.enqueued_at, t.finished_at, t.key, t.group_key, t.worker, left(t.last_error, 300),
      case when t.payload is not null then left(t.payload::text, 160)
        else octet_length(t.payload_bytes) || ' bytes' end, t.ctid::text, null::integer
    from penstock.history_log t left join penstock.queue q on q.name = t.queue
    where t.slot = history_slot and {range(t)} and (queues is null or t.queue = any (queues))
      and t.finished_at > now_at - make_interval(days => coalesce(nullif(q.keep_history, 0), 3650))
      and penstock._has_text((t.id, null, null, null, null, null, null, null, null, null, null, t.worker, t.key,
        t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error)::penstock.envelope, pattern, payloads)
    limit page;
  end if;
end $$;

-- Whether a message has a text that matches the pattern, for ILIKE, anywhere but in its numbers and times.
create or replace function penstock._has_text(m penstock.envelope, pattern text, payloads boolean) returns boolean
language sql stable as $$
  select m.key ilike pattern or m.group_key ilike pattern or m.worker ilike pattern or m.last_error ilike pattern
    or payloads and (m.headers::text ilike pattern or case when m.body_slot is not null then coalesce(
        penstock._body_json(m.body_slot, m.id)::text, encode(penstock._body_bytes(m.body_slot, m.id), 'escape'))
      else coalesce(m.payload::text, encode(m.payload_bytes, 'escape')) end ilike pattern)
$$;
