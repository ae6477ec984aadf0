-- Deletes finished messages from history, with their failed attempts, their results, their progress and their rows in
-- PGMQ's archive, and the answers of dequeues that have them: those with these ids that were enqueued at these times.
-- Parallel arrays. Returns how many rows of history, attempts and results went. For `penstock lake forget`.
-- Locks: the rows. Uses the indexes of history_log and attempt_log on their ids, and the primary keys of result,
-- progress and pgmq_archive.
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
  delete from penstock.pgmq_archive a using unnest(ids, enqueued_ats) u (id, enqueued_at), penstock.queue q
    where a.queue_id = q.id and a.msg_id = u.id and a.enqueued_at = u.enqueued_at;
  perform penstock._erase_answers(ids);
  perform penstock._erase_spent_groups();
  return messages + attempts + results;
end $$;

-- Deletes the answers stored for an Idempotency-Key that contain claimed messages with these ids. If such a call is
-- repeated, it claims other messages. Answers without payloads stay, so that no work is done twice. Scans
-- idempotent_answer, which has the answers of a day. Locks: the rows.
create or replace function penstock._erase_answers(ids bigint[]) returns void language sql as $$
  delete from penstock.idempotent_answer a
  where substr(a.body, 1, 13) = '{"messages":['::bytea
    and exists (select from regexp_matches(convert_from(a.body, 'UTF8'), '"id":"([0-9]{1,18})"', 'g') m
                where m[1]::bigint = any (ids));
$$;

-- Deletes rows of deferred upkeep that name a group. Their work was done when their transactions committed, and they
-- would stay until their segment is truncated. A name of a group may be that of a customer. Scans deferred_N.
-- Locks: the rows.
create or replace function penstock._erase_spent_groups() returns void language plpgsql as $$
begin
  --: for each segment
  delete from penstock.deferred_{slot} d where d.group_key is not null;
  --: end
end $$;
