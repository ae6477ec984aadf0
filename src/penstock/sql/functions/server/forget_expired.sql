-- Deletes expired messages from history, and returns their number. A second call at the same time returns 0. Locks: an
-- advisory lock, and the deleted rows. Scans history.
create or replace function penstock.forget_expired() returns bigint language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
  n bigint;
begin
  if not pg_try_advisory_xact_lock({lock.forget_expired}) then
    return 0;
  end if;
  delete from penstock.history_log where state = 'expired';
  get diagnostics n = row_count;
  return n;
end $$;
