-- Schedules: create, change, pause, drop. _find_schedule returns a schedule by name, or raises PS013.
-- Locks: the row of the schedule until commit. Uses schedule_name_key.
create or replace function penstock._find_schedule(name text) returns penstock.schedule language plpgsql as $$
#variable_conflict use_column
declare
  s penstock.schedule;
begin
  select * into s from penstock.schedule t where t.name = _find_schedule.name for no key update;
  if not found then
    perform penstock._fail('PS013', format('schedule %L does not exist', _find_schedule.name),
      jsonb_build_object('schedule', _find_schedule.name),
      'Create it with penstock.create_schedule. The view penstock.schedules lists all schedules.');
  end if;
  return s;
end $$;

-- Creates a schedule, which enqueues a message whenever its rule fires. Returns true if it was created, and false if it
-- exists and exist_ok is true. Locks: an advisory lock on the name until commit. Uses schedule_name_key.
create or replace function penstock.create_schedule(
  name text, queue text, cron text, payload jsonb default 'null', settings jsonb default '{}',
    exist_ok boolean default false)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.schedule;
begin
  if create_schedule.name !~ '^[a-z0-9._-]{1,128}$' or create_schedule.name is null then
    perform penstock._fail_value('name', create_schedule.name, '1 to 128 lowercase letters, digits, -, _ and .');
  end if;
  -- If two callers create the same name, the second waits here and then finds the row of the first.
  perform pg_advisory_xact_lock(hashtextextended('penstock schedule ' || create_schedule.name, 0));
  if exists (select from penstock.schedule t where t.name = create_schedule.name) then
    if exist_ok then
      return false;
    end if;
    perform penstock._fail('PS014', format('schedule %L already exists', create_schedule.name),
      jsonb_build_object('schedule', create_schedule.name),
      'Change it with penstock.set_schedule, or create it with exist_ok => true.');
  end if;
  -- These are arguments. In the settings they would override the arguments, which a server has checked.
  if settings ?| array['queue', 'cron', 'payload'] then
    perform penstock._fail_value('settings', (select k from unnest(array['queue', 'cron', 'payload']) k
      where settings ? k limit 1), 'settings other than queue, cron and payload, which are separate arguments');
  end if;
  s.name := create_schedule.name;
  s.time_zone := 'UTC';
  s.priority := 0;
  s.missed := 'once';
  s.missed_after_seconds := 60;
  s.paused := false;
  s.created_at := clock_timestamp();
  s := penstock._with_schedule_settings(s, jsonb_build_object('queue', queue, 'cron', cron, 'payload',
    coalesce(payload, 'null')) || settings);
  s.id := nextval(pg_get_serial_sequence('penstock.schedule', 'id'));
  insert into penstock.schedule overriding system value select s.*;
  return true;
end $$;

-- Changes settings of a schedule, all or none. A JSON null resets a setting to its default. A due fire stays due unless
-- the rule or the time zone changes. In that case the next fire is computed from now. Locks: the row of the schedule
-- until commit. Uses schedule_name_key.
create or replace function penstock.set_schedule(name text, settings jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.schedule := penstock._find_schedule(set_schedule.name);
  n penstock.schedule := penstock._with_schedule_settings(s, settings);
begin
  n.updated_at := s.updated_at;
  if n is distinct from s then
    update penstock.schedule t
    set queue_id = n.queue_id, cron = n.cron, time_zone = n.time_zone, payload = n.payload, headers = n.headers,
        key = n.key, priority = n.priority, group_key = n.group_key, ttl_seconds = n.ttl_seconds,
        max_attempts = n.max_attempts, missed = n.missed, missed_after_seconds = n.missed_after_seconds,
        paused = n.paused, next_fire_at = n.next_fire_at, last_error = null,
        updated_at = clock_timestamp()
    where t.id = s.id;
  end if;
end $$;

-- Returns the schedule with its settings changed and checked. Its queue must accept the message of the schedule. Locks:
-- none. Uses queue_name_key.
create or replace function penstock._with_schedule_settings(s penstock.schedule, settings jsonb)
returns penstock.schedule language plpgsql as $$
declare
  known   constant text[] := array['queue', 'cron', 'time_zone', 'payload', 'headers', 'key', 'priority', 'group_key',
                                   'ttl_seconds', 'max_attempts', 'missed', 'missed_after_seconds', 'paused'];
  before  constant penstock.schedule := s;
  q       penstock.queue;
  setting record;
begin
  if settings is null or jsonb_typeof(settings) <> 'object' then
    perform penstock._fail_value('settings', settings::text, 'a JSON object of settings');
  end if;
  for setting in select * from jsonb_each(settings) e (key, value) loop
    if setting.key <> all (known) then
      perform penstock._fail_value('settings', setting.key, array_to_string(known, ', '));
    end if;
    s := penstock._with_schedule_setting(s, setting.key, setting.value);
  end loop;
  select * into q from penstock.queue t where t.id = s.queue_id;
  perform penstock._check_message(q, s.payload, null, s.headers, s.key, s.priority, s.group_key, null, null,
    make_interval(secs => s.ttl_seconds), s.max_attempts);
  -- Fires that were due during a pause are skipped.
  if (s.cron, s.time_zone) is distinct from (before.cron, before.time_zone) or before.paused and not s.paused then
    s.next_fire_at := penstock._next_fire(s.cron, s.time_zone, clock_timestamp());
    if s.next_fire_at is null then
      perform penstock._fail_value('cron', s.cron, 'a rule that fires within the next eight years');
    end if;
  end if;
  s.updated_at := clock_timestamp();
  return s;
end $$;

-- Returns the schedule with one setting changed and checked.
create or replace function penstock._with_schedule_setting(s penstock.schedule, setting text, value jsonb)
returns penstock.schedule language plpgsql as $$
begin
  case setting
    when 'queue' then s.queue_id := penstock._queue_id(penstock._text_of(setting, value));
    when 'cron' then
      s.cron := penstock._text_of(setting, value);
      if penstock._cron_period(s.cron) is null then
        perform penstock._parse_cron(s.cron);
      end if;
    when 'time_zone' then s.time_zone := penstock._checked_time_zone(coalesce(penstock._text_of(setting, value),
      'UTC'));
    when 'payload' then s.payload := value;
    when 'headers' then s.headers := nullif(value, 'null');
    when 'key' then s.key := penstock._text_of(setting, value);
    when 'priority' then s.priority := penstock._whole(setting, value, -9, 9, 0);
    when 'group_key' then s.group_key := penstock._text_of(setting, value);
    when 'ttl_seconds' then s.ttl_seconds := penstock._whole(setting, value, 1, 315360000, null);
    when 'max_attempts' then s.max_attempts := penstock._whole(setting, value, 1, 100, null);
    when 'missed' then
      s.missed := coalesce(penstock._text_of(setting, value), 'once');
      if s.missed not in ('once', 'all', 'skip') then
        perform penstock._fail_value(setting, s.missed, 'once, all or skip');
      end if;
    when 'missed_after_seconds' then s.missed_after_seconds := penstock._whole(setting, value, 1, 86400, 60);
    when 'paused' then s.paused := penstock._truth(setting, value, false);
  end case;
  return s;
end $$;

-- Returns the id of a queue, or raises PS001. Locks: none. Uses queue_name_key.
create or replace function penstock._queue_id(queue text) returns integer language plpgsql stable as $$
declare
  found integer := (select q.id from penstock.queue q where q.name = _queue_id.queue);
begin
  if found is null then
    perform penstock._fail_unknown_queue(queue);
  end if;
  return found;
end $$;

-- Drops a schedule. The messages that it has enqueued stay. Locks: the row of the schedule. Uses schedule_name_key.
create or replace function penstock.drop_schedule(name text) returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.schedule := penstock._find_schedule(drop_schedule.name);
begin
  delete from penstock.schedule t where t.id = s.id;
end $$;
