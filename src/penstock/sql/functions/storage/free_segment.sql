-- Truncates a segment if no other session uses it and it is empty. The lock proves that no open transaction could still
-- commit rows into it. A slow enqueuer, or a reader, only delays the truncation. A segment that is not empty is
-- released at once: an ack of a message that is leased there would wait otherwise.
-- Locks: ACCESS EXCLUSIVE (NOWAIT) on the tables of the segment until commit. Indexes: none.
create or replace function penstock._free_segment(slot text) returns boolean language plpgsql as $$
begin
  execute replace('lock table penstock.lane_#, penstock.leased_#, penstock.grant_#, penstock.body_#,
    penstock.deferred_# in access exclusive mode nowait', '#', slot);
  if penstock._holds_rows(slot) then
    perform setval(('penstock.drained_' || slot)::regclass, 0);
    raise lock_not_available;
  end if;
  execute replace('truncate penstock.lane_#, penstock.leased_#, penstock.grant_#, penstock.body_#, penstock.deferred_#',
    '#', slot);
  perform setval(('penstock.drained_' || slot)::regclass, 0);
  return true;
exception when lock_not_available or object_in_use then   -- in use: by the deferred trigger that called this function
  return false;
end $$;
