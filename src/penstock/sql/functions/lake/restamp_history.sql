-- Gives the id of this transaction to rows of a restored dump whose transaction ids are in the future of this server,
-- and returns their number. No snapshot of this server would see them for a long time. Locks: the changed rows. Scans
-- history.
create or replace function penstock.restamp_history() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  future xid8 := pg_snapshot_xmax(pg_current_snapshot());
  n      bigint;
  m      bigint;
begin
  update penstock.history_log set xid = pg_current_xact_id() where xid >= future;
  get diagnostics n = row_count;
  update penstock.attempt_log set xid = pg_current_xact_id() where xid >= future;
  get diagnostics m = row_count;
  delete from penstock.history_dropped where through_xid >= future;
  return n + m;
end $$;
