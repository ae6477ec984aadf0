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

-- Ends a session or a sign-in link of the HTTP server. True the first time. Locks: the new row. Uses
-- ended_token_pkey.
create or replace function penstock.end_token(id text) returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  insert into penstock.ended_token (id) values (end_token.id) on conflict do nothing;
  return found;
end $$;
