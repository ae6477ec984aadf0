-- Computes the statistics of history again. PostgreSQL keeps common values of a column in pg_statistic, so a payload
-- that was erased from history may still be there. For `penstock lake forget`. Locks: the logs, against vacuum and
-- changes of their definition. Reads a sample of each log.
create or replace function penstock.analyze_history() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  analyze penstock.history_log;
  analyze penstock.attempt_log;
  analyze penstock.result;
  analyze penstock.error_day;
end $$;
