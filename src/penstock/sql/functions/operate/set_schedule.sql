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
    when 'ttl_seconds' then s.ttl_seconds := penstock._whole(setting, value, 1, {limit.ttl_seconds}, null);
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
