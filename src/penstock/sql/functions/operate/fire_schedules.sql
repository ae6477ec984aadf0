-- Enqueues a message for every due schedule. Returns the number of messages and the time of the next fire. Workers call
-- it on time, and claims call it about once a minute. Any number of callers may call it at once, and each fire is
-- enqueued once, because the row of a schedule records its last fire in the transaction that enqueues.
-- Locks until commit: the rows of the due schedules, with SKIP LOCKED. Uses schedule_due.
create or replace function penstock.fire_schedules(out fired integer, out next_fire_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  s      penstock.schedule;
  error  text;
begin
  fired := 0;
  for s in
    -- Schedules that failed before come last, so that they do not delay the others.
    select * from penstock.schedule t where not t.paused and t.next_fire_at <= now_at
    order by t.last_error is not null, t.next_fire_at limit 1000 for no key update skip locked
  loop
    begin
      fired := fired + penstock._fire(s, now_at);
    exception when others then
      -- For example a full queue. The fire stays due, and the next call tries it again.
      error := format('%s (%s)', sqlerrm, sqlstate);
      if s.last_error is distinct from error then
        update penstock.schedule t set last_error = error where t.id = s.id;
      end if;
    end;
  end loop;
  next_fire_at := (select min(t.next_fire_at) from penstock.schedule t where not t.paused and t.next_fire_at > now_at);
end $$;

-- Enqueues the due fires of a schedule, and sets the next one. Returns the number of messages. Missed fires:
--   once  one message stands for all of them
--   all   each gets a message, up to 1,000 at a time
--   skip  those more than missed_after_seconds ago get none
-- Locks: the row of the schedule, which the caller has locked, and as enqueue. Uses schedule_pkey.
create or replace function penstock._fire(s penstock.schedule, now_at timestamptz) returns integer language plpgsql
  as $$
declare
  fire_at timestamptz := s.next_fire_at;
  n       integer := 0;
begin
  if s.missed = 'skip' and fire_at < now_at - make_interval(secs => s.missed_after_seconds) then
    fire_at := penstock._next_fire(s.cron, s.time_zone, now_at - make_interval(secs => s.missed_after_seconds));
  end if;
  while fire_at <= now_at and n < 1000 loop
    s.last_message_id := penstock._enqueue_fire(s, fire_at);
    s.last_fire_at := fire_at;
    n := n + 1;
    fire_at := penstock._next_fire(s.cron, s.time_zone, case when s.missed = 'all' then fire_at else now_at end);
  end loop;
  -- A rule always has a next fire, because it was checked to fire within eight years, but a time zone may be redefined.
  update penstock.schedule t
  set next_fire_at = coalesce(fire_at, 'infinity'), last_fire_at = s.last_fire_at, last_message_id = s.last_message_id,
    last_error = null
  where t.id = s.id;
  return n;
end $$;

-- Enqueues one fire. The caller does not need the right to enqueue to the queue of the schedule, because an admin chose
-- that queue. Locks and indexes: as enqueue. Uses queue_pkey.
create or replace function penstock._enqueue_fire(s penstock.schedule, fire_at timestamptz) returns bigint
language plpgsql as $$
begin
  return penstock._enqueue_checked((select q.name from penstock.queue q where q.id = s.queue_id), s.payload, null,
    coalesce(s.headers, '{}') || jsonb_build_object('penstock-schedule', s.name, 'penstock-fire-at', fire_at), s.key,
      s.priority, s.group_key, null, null,
    make_interval(secs => s.ttl_seconds), s.max_attempts, 'replace', 'waiting');
end $$;

-- Enqueues the message of a schedule now, even if it is paused. The next fire does not change. Returns the id. Locks:
-- as enqueue. Uses schedule_pkey.
create or replace function penstock.fire_schedule(name text) returns bigint language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
  s penstock.schedule := penstock._find_schedule(fire_schedule.name);
begin
  return penstock._enqueue_fire(s, clock_timestamp());
end $$;
