-- Requests an act on all messages in a state that match a filter: cancel, redrive, replay, move or set_priority.
-- Messages that were enqueued after the request are left out, so the act ends. With in_background a server carries it
-- out; otherwise the caller calls step_bulk_act until it has ended. dry_run only counts. Returns the id of the act.
-- Locks: the new rows. Uses queue_name_key, and indexes as browse.
create or replace function penstock.request_bulk_act(act text, state text, queues text[] default null,
  key text default null, error text default null, worker text default null, enqueued_before timestamptz default null,
  enqueued_after timestamptz default null, to_queue text default null, priority integer default null,
  per_second numeric default null, max_count bigint default null, dry_run boolean default false,
  in_background boolean default true, created_by text default null)
returns uuid language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  now_at  timestamptz := clock_timestamp();
  allowed text[] := case request_bulk_act.act
    when 'cancel' then array['ready', 'scheduled', 'leased', 'dead']
    when 'redrive' then array['dead']
    when 'replay' then array['finished', 'done', 'expired', 'cancelled', 'superseded']
    when 'move' then array['ready', 'scheduled', 'dead']
    when 'set_priority' then array['ready', 'scheduled'] end;
  made    uuid;
  missing text;
begin
  if allowed is null then
    perform penstock._fail_value('act', request_bulk_act.act, 'cancel, redrive, replay, move or set_priority');
  elsif request_bulk_act.state <> all (allowed) or request_bulk_act.state is null then
    perform penstock._fail_value('state', request_bulk_act.state, array_to_string(allowed, ', '));
  elsif request_bulk_act.act = 'move' and request_bulk_act.to_queue is null then
    perform penstock._fail_value('to_queue', null, 'the name of a queue');
  elsif request_bulk_act.act = 'set_priority' and (request_bulk_act.priority is null
    or request_bulk_act.priority not between -9 and 9) then
    perform penstock._fail_value('priority', request_bulk_act.priority::text, '-9 to 9');
  elsif request_bulk_act.per_second <= 0 then
    perform penstock._fail_value('per_second', request_bulk_act.per_second::text, 'more than 0');
  elsif request_bulk_act.max_count <= 0 then
    perform penstock._fail_value('max_count', request_bulk_act.max_count::text, '1 or more');
  end if;
  missing := (select n from unnest(request_bulk_act.queues || request_bulk_act.to_queue) n
    where n is not null and not exists (select from penstock.queue q where q.name = n) limit 1);
  if missing is not null then
    perform penstock._fail_unknown_queue(missing);
  end if;
  insert into penstock.bulk_act as b (act, queues, state, key, error, worker, enqueued_before, enqueued_after, to_queue,
    priority, per_second, max_count, dry_run, created_by, created_at)
  values (request_bulk_act.act, request_bulk_act.queues, request_bulk_act.state,
    request_bulk_act.key, request_bulk_act.error, request_bulk_act.worker,
    least(request_bulk_act.enqueued_before, now_at), request_bulk_act.enqueued_after,
    request_bulk_act.to_queue, request_bulk_act.priority, request_bulk_act.per_second, request_bulk_act.max_count,
    request_bulk_act.dry_run, request_bulk_act.created_by, now_at)
  returning b.id into made;
  -- least ignores nulls, and an unknown number stays null.
  update penstock.bulk_act b set expected = case when t.count is not null then least(t.count, b.max_count) end
  from (select penstock._count_meant(a) as count from penstock.bulk_act a where a.id = made) t where b.id = made;
  if in_background then
    if not exists (select from penstock.queue q where q.name = 'penstock.bulk_acts') then
      perform penstock.create_queue('penstock.bulk_acts',
        '{"lease_seconds": 6, "max_attempts": 100, "keep_history": 0}', exist_ok => true);
    end if;
    perform penstock.enqueue('penstock.bulk_acts', jsonb_build_object('bulk_act', made));
  end if;
  return made;
end $$;

-- How many messages an act is going to find: of 10,000 or fewer their exact number, else the statistics of the state,
-- which may be an estimate. Null if there are more and the act has a filter, because only the act itself can count
-- them. Locks: ACCESS SHARE. Indexes as browse and stats.
create or replace function penstock._count_meant(b penstock.bulk_act) returns bigint language plpgsql stable as $$
declare
  s penstock.sighting;
  t penstock.queue_stats;
  n bigint := 0;
begin
  for s in select * from penstock.browse(b.state, b.queues,
    (b.key, b.error, b.worker, b.enqueued_before, b.enqueued_after)::penstock.sight_filter, null, 10000, 10000)
  loop
    n := n + case when s.id is not null and penstock._is_meant(b, s) then 1 else 0 end;
  end loop;
  -- At this point s is the last row.
  if s.place is null then
    return n;
  elsif coalesce(b.key, b.error, b.worker) is not null or b.enqueued_before < b.created_at
    or b.enqueued_after is not null or b.state not in ('ready', 'scheduled', 'leased', 'dead') then
    return null;
  end if;
  n := 0;
  for t in
    select a.* from penstock.all_stats() a where b.queues is null and not a.queue ^@ 'penstock.'
    union all select (penstock.stats(q.name)).* from unnest(b.queues) q (name)
  loop
    n := n + case b.state when 'ready' then t.ready when 'scheduled' then t.scheduled when 'leased' then t.leased
      else t.dead end;
  end loop;
  return n;
end $$;
