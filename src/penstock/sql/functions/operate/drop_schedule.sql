-- Drops a schedule. The messages that it has enqueued stay. Locks: the row of the schedule. Uses schedule_name_key.
create or replace function penstock.drop_schedule(name text) returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.schedule := penstock._find_schedule(drop_schedule.name);
begin
  delete from penstock.schedule t where t.id = s.id;
end $$;
