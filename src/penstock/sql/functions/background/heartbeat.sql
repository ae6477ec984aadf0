-- beat: a worker reports that it is alive. report: hostname, pid, version, queues. Deletes workers that were not seen
-- for a day.
-- Locks: the row of the worker. Uses heartbeat_pkey.
create or replace function penstock.beat(worker text, state text, started_at timestamptz, report jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if octet_length(beat.worker) not between 1 and {limit.key_bytes} or beat.worker is null then
    perform penstock._fail_value('worker', beat.worker, '1 to {limit.key_bytes} bytes of text');
  elsif beat.state not in ('running', 'draining') or beat.state is null then
    perform penstock._fail_value('state', beat.state, 'running or draining');
  elsif beat.started_at is null then
    perform penstock._fail_value('started_at', null, 'the time when the worker was started');
  elsif jsonb_typeof(beat.report) is distinct from 'object' or pg_column_size(beat.report) > 65536
    or penstock._text_bytes(beat.report) > 65536 then
    perform penstock._fail_value('report', left(beat.report::text, 100), 'a JSON object of at most 65536 bytes');
  end if;
  insert into penstock.heartbeat as h (worker, state, started_at, seen_at, report)
  values (beat.worker, beat.state, beat.started_at, clock_timestamp(), beat.report)
  on conflict (worker) do update
  set state = excluded.state, started_at = excluded.started_at, seen_at = excluded.seen_at, report = excluded.report;
  delete from penstock.heartbeat where ctid = any (array(
    select h.ctid from penstock.heartbeat h where h.seen_at < clock_timestamp() - interval '1 day' limit 100
      for update skip locked));
end $$;

-- beat_v2: as beat, for workers that take commands. Returns the command for the worker: 'quiet', 'stop', or
-- null if it should work. A command is for one process, so a worker that was started later under the same name does not
-- get it. Locks and indexes: as beat.
create or replace function penstock.beat_v2(worker text, state text, started_at timestamptz, report jsonb) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform penstock.beat(beat_v2.worker, beat_v2.state, beat_v2.started_at, beat_v2.report);
  return (select h.command from penstock.heartbeat h
    where h.worker = beat_v2.worker and h.command_for = beat_v2.started_at);
end $$;

-- A worker ends: deletes its heartbeat. True if there was one. Locks: the row of the worker. Uses heartbeat_pkey.
create or replace function penstock.retire(worker text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  delete from penstock.heartbeat h where h.worker = retire.worker;
  return found;
end $$;
