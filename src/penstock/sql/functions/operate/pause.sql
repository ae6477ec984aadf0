-- Pauses a queue: claims return nothing. The variant `resume` delivers its messages again. Locks and indexes: as
-- set_queue.
--: variant resume
--:   penstock.pause( => penstock.resume(
--:   true} => false}
create or replace function penstock.pause(name text) returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock.set_queue(name, '{"paused": true}');
end $$;
