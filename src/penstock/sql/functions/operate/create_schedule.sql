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
