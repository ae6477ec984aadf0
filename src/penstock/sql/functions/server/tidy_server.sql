-- Deletes old rows of the HTTP server in bounded batches. Answers and the ids of ended tokens are kept for a day, which
-- is longer than the lifetime of a token. Tasks and bulk acts are kept for a week, the record that a task was executed
-- for a month, and activity for a year.
-- Locks: the deleted rows. Uses the indexes on the times.
create or replace function penstock.tidy_server() returns jsonb language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
  answers integer; tasks integer; proofs integer; acts integer;
begin
  delete from penstock.idempotent_answer where ctid = any (array(
    select ctid from penstock.idempotent_answer where made_at < clock_timestamp() - interval '1 day' limit 10000
      for update skip locked));
  get diagnostics answers = row_count;
  delete from penstock.bulk_act where finished_at < clock_timestamp() - interval '7 days';
  delete from penstock.ended_token where ended_at < clock_timestamp() - interval '1 day';
  delete from penstock.service_task where ctid = any (array(
    select ctid from penstock.service_task where finished_at < clock_timestamp() - interval '7 days' limit 10000
      for update skip locked));
  get diagnostics tasks = row_count;
  delete from penstock.applied_task where ctid = any (array(
    select ctid from penstock.applied_task where applied_at < clock_timestamp() - interval '30 days' limit 10000
      for update skip locked));
  get diagnostics proofs = row_count;
  delete from penstock.activity_log where ctid = any (array(
    select ctid from penstock.activity_log where at < clock_timestamp() - interval '365 days' limit 10000
      for update skip locked));
  get diagnostics acts = row_count;
  return jsonb_build_object('answers', answers, 'tasks', tasks, 'proofs', proofs, 'acts', acts);
end $$;
