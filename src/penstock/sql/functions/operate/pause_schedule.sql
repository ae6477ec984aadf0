-- Pauses a schedule. The variant `resume_schedule` fires it again; fires that were due during the pause are skipped.
-- Locks and indexes: as set_schedule.
--: variant resume_schedule
--:   penstock.pause_schedule( => penstock.resume_schedule(
--:   true} => false}
create or replace function penstock.pause_schedule(name text) returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock.set_schedule(name, '{"paused": true}');
end $$;
