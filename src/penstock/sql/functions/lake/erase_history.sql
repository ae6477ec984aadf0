-- Deletes finished messages from history, with their failed attempts, their results and their progress: those with
-- these ids that were enqueued at these times. Parallel arrays. Returns how many rows went. For `penstock lake forget`.
-- Locks: the rows. Uses the indexes of history_log and attempt_log on their ids, and the primary keys of result and
-- progress.
create or replace function penstock.erase_history(ids bigint[], enqueued_ats timestamptz[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  messages bigint;
  attempts bigint;
  results bigint;
begin
  delete from penstock.history_log h using unnest(ids, enqueued_ats) u (id, enqueued_at)
    where h.id = u.id and h.enqueued_at = u.enqueued_at;
  get diagnostics messages = row_count;
  delete from penstock.attempt_log a using unnest(ids, enqueued_ats) u (id, enqueued_at)
    where a.message_id = u.id and a.ended_at >= u.enqueued_at;
  get diagnostics attempts = row_count;
  delete from penstock.result r using unnest(ids, enqueued_ats) u (id, enqueued_at)
    where r.id = u.id and r.finished_at >= u.enqueued_at;
  get diagnostics results = row_count;
  delete from penstock.progress p using unnest(ids, enqueued_ats) u (id, enqueued_at)
    where p.id = u.id and p.updated_at >= u.enqueued_at;
  return messages + attempts + results;
end $$;
