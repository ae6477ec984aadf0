-- Returns a schedule by name, or raises PS013. Locks: the row of the schedule until commit. Uses schedule_name_key.
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
