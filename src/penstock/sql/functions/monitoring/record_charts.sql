-- record_charts adds what has happened since the last call to the charts of the queues: the depths at the end of each
-- minute, and the messages and attempts that ended in it. Returns the number of rows that it wrote. Any number of
-- servers may call it at any time. Once in each minute one of them does the work.
-- It reads the history that this statement sees and the last call did not see, so it misses none and counts none twice,
-- even if transactions are open. After a pause it fills the gap from history, 50,000 rows with each call. Depths exist
-- only for minutes in which it was called. For queues without history it counts what workers report.
-- Locks: an advisory lock, the row of progress, the heartbeats of workers that serve queues without history, and ACCESS
-- EXCLUSIVE (NOWAIT) on an old slot that it truncates. Uses history_log_xid and attempt_log_xid.
create or replace function penstock.record_charts() returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  piece     constant integer := 50000;
  now_at    constant timestamptz := clock_timestamp();
  minute_at constant timestamptz := penstock._chart_step('1 minute', now_at);
  progress  penstock.chart_progress;
  next_xid  xid8;
  until     xid8;
  is_due    boolean;
  total     integer := 0;
  added     integer;
begin
  if not pg_try_advisory_xact_lock({lock.record_charts}) then
    return 0;
  end if;
  select * into progress from penstock.chart_progress;
  is_due := progress.recorded_at is null or progress.recorded_at < minute_at
    or progress.recorded_at > minute_at + interval '2 hours';   -- the clock was set back
  if not is_due and not progress.is_behind then
    return 0;
  end if;
  if progress.database <> penstock._database()
    or pg_snapshot_xmax(progress.snapshot) > pg_snapshot_xmax(pg_current_snapshot()) then
    -- A copy of the database has other transaction ids. Its history was counted before it was copied.
    progress.snapshot := pg_current_snapshot();
    progress.history_since := now_at;
  end if;
  progress.hours_until := penstock._add_up_hours(progress.hours_until, now_at);
  -- Ends before the first transaction after the piece, so that a call counts whole transactions and always moves on.
  until := pg_snapshot_xmax(pg_current_snapshot());
  progress.is_behind := false;
  for next_xid in
    select (select n.xid from penstock.history_log n where n.xid > h.xid order by n.xid limit 1)
    from (select t.xid from penstock.history_log t where t.xid >= pg_snapshot_xmax(progress.snapshot)
          order by t.xid offset piece limit 1) h
    union all
    select (select n.xid from penstock.attempt_log n where n.xid > a.xid order by n.xid limit 1)
    from (select t.xid from penstock.attempt_log t where t.xid >= pg_snapshot_xmax(progress.snapshot)
          order by t.xid offset piece limit 1) a
  loop
    progress.is_behind := progress.is_behind or coalesce(next_xid < until, false);
    until := least(until, next_xid);
  end loop;
  added := penstock._chart_history(progress, until);
  total := total + added;
  if is_due then
    added := penstock._chart_depths(minute_at - interval '1 minute');
    total := total + added;
    progress.cleared := penstock._clear_charts(progress.cleared, now_at);
  end if;
  update penstock.chart_progress set database = penstock._database(), history_since = progress.history_since,
    recorded_at = minute_at, hours_until = progress.hours_until, cleared = progress.cleared;
  return total;
end $$;

-- Inserts the messages and attempts that ended in transactions below `until` and that the last call did not see, and
-- stores how far it got. One statement, so that the rows and the new snapshot agree. Rows of this transaction
-- count next time: it may still write more of them. Locks: the row of progress. Uses history_log_xid and
-- attempt_log_xid.
create or replace function penstock._chart_history(progress penstock.chart_progress, until xid8) returns integer
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  own   constant xid8 := coalesce(pg_current_xact_id_if_assigned(), '0'::xid8);
  seen  constant pg_snapshot := progress.snapshot;
  added integer;
begin
  with ended as (
    select h.queue, h.finished_at as at, h.state = 'done' as is_done,
      penstock._duration_bucket(h.first_claimed_at - h.enqueued_at) as wait,
      penstock._duration_bucket(h.finished_at - h.last_claimed_at) as run
    from penstock.history_log h
    where h.xid >= pg_snapshot_xmax(seen) and h.xid < until and h.xid <> own
    union all
    select h.queue, h.finished_at, h.state = 'done', penstock._duration_bucket(h.first_claimed_at - h.enqueued_at),
      penstock._duration_bucket(h.finished_at - h.last_claimed_at)
    from penstock.history_log h where h.xid = any (array(select pg_snapshot_xip(seen))) and h.xid <> own
  ), attempted as (
    select a.queue, a.ended_at as at, a.state = 'dead' as is_dead,
      penstock._duration_bucket(a.ended_at - a.started_at) as run
    from penstock.attempt_log a
    where a.xid >= pg_snapshot_xmax(seen) and a.xid < until and a.xid <> own
    union all
    select a.queue, a.ended_at, a.state = 'dead', penstock._duration_bucket(a.ended_at - a.started_at)
    from penstock.attempt_log a where a.xid = any (array(select pg_snapshot_xip(seen))) and a.xid <> own
  ), counted as (
    -- By minute, and by minute and duration: waits and runs separately, or there would be as many groups as messages.
    select e.queue, e.at, e.wait, e.run, grouping(e.wait) = 0 as is_wait, grouping(e.run) = 0 as is_run,
      count(*) as done, 0 as failed, 0 as died
    from (select queue, penstock._chart_step('1 minute', at) as at, wait, run from ended
          where is_done and at >= progress.history_since) e
    group by grouping sets ((e.queue, e.at), (e.queue, e.at, e.wait), (e.queue, e.at, e.run))
    union all
    select a.queue, a.at, null::integer, a.run, false, grouping(a.run) = 0, 0, count(*),
      count(*) filter (where a.is_dead)
    from (select queue, penstock._chart_step('1 minute', at) as at, is_dead, run from attempted
          where at >= progress.history_since) a
    group by grouping sets ((a.queue, a.at), (a.queue, a.at, a.run))
  ), placed as (
    -- Each count belongs to its queue and to all queues together. Hours that were added up before get it, too.
    select p.queue_id, p.is_hour, case when p.is_hour then penstock._chart_step('1 hour', c.at) else c.at end as at,
      c.done, c.failed, c.died, c.wait, c.run, c.is_wait, c.is_run
    from counted c join penstock.queue q on q.name = c.queue
      cross join lateral (values (q.id, false), (0, false), (q.id, true), (0, true)) p (queue_id, is_hour)
    where case when p.is_hour then c.at < progress.hours_until else penstock._chart_has_minute(c.at) end
  ), waits as (
    select w.queue_id, w.is_hour, w.at, array_agg(array[w.wait, w.n] order by w.wait) as pairs
    from (select queue_id, is_hour, at, wait, sum(done)::integer as n from placed
          where is_wait and wait is not null group by 1, 2, 3, 4) w
    group by 1, 2, 3
  ), runs as (
    select r.queue_id, r.is_hour, r.at, array_agg(array[r.run, r.n] order by r.run) as pairs
    from (select queue_id, is_hour, at, run, sum(done + failed)::integer as n from placed
          where is_run and run is not null group by 1, 2, 3, 4) r
    group by 1, 2, 3
  ), noted as (
    update penstock.chart_progress set is_behind = progress.is_behind,
      snapshot = penstock._snapshot_until(until, own)
  )
  insert into penstock.chart_point (slot, queue_id, is_hour, at, done, failed, died, waits, runs)
  select penstock._chart_slot(p.is_hour, p.at), p.queue_id, p.is_hour, p.at, p.done, p.failed, p.died, w.pairs, r.pairs
  from (select queue_id, is_hour, at, sum(done) as done, sum(failed) as failed, sum(died) as died from placed
        where not is_wait and not is_run group by 1, 2, 3) p
    left join waits w on w.queue_id = p.queue_id and w.is_hour = p.is_hour and w.at = p.at
    left join runs r on r.queue_id = p.queue_id and r.is_hour = p.is_hour and r.at = p.at;
  get diagnostics added = row_count;
  return added;
end $$;

-- Returns the current snapshot as if it had been taken before transaction `until` began. `own` counts as running.
create or replace function penstock._snapshot_until(until xid8, own xid8) returns pg_snapshot language sql stable as $$
  select (coalesce(min(r.xid), until)::text || ':' || until::text || ':'
    || coalesce(string_agg(r.xid::text, ',' order by r.xid), ''))::pg_snapshot
  from (select x as xid from pg_snapshot_xip(pg_current_snapshot()) x where x < until
        union select own where own > '0'::xid8 and own < until) r
$$;

-- Inserts the depths of the queues, and the work that workers report for queues without history, for one minute.
-- Queues without messages get no row. Locks: the heartbeats of workers that serve queues without history. Reads the
-- same tables as all_stats, and all heartbeats.
create or replace function penstock._chart_depths(at timestamptz) returns integer language plpgsql as $$
#variable_conflict use_column
declare
  added integer;
begin
  with depth as (
    select q.id, s.ready, s.leased, s.scheduled, s.dead, s.estimated
    from penstock.all_stats() s join penstock.queue q on q.name = s.queue
  ), reported as (
    select h.worker, w.key as queue, greatest((w.value ->> 'done')::bigint, 0) as done,
      greatest((w.value ->> 'failed')::bigint, 0) as failed, h.started_at::text as start, h.counted
    from penstock.heartbeat h cross join lateral jsonb_each(case when jsonb_typeof(h.report -> 'queues') = 'object'
      then h.report -> 'queues' else '{}' end) w
    where w.value @? '$.done ? (@.type() == "number" && @ < 1e15)'
      and w.value @? '$.failed ? (@.type() == "number" && @ < 1e15)'
      and exists (select from penstock.queue q where q.name = w.key and q.keep_history = 0)
  ), noted as (
    update penstock.heartbeat h set counted = r.counted
    from (select worker, jsonb_build_object('start', start, 'queues',
            jsonb_object_agg(queue, jsonb_build_array(done, failed))) as counted
          from reported group by worker, start) r
    where h.worker = r.worker and h.counted is distinct from r.counted
  ), worked as (
    -- A worker that was started since begins at zero. One that is seen for the first time may have worked for days.
    select q.id, sum(greatest(r.done - case when r.counted ->> 'start' = r.start
        then coalesce((r.counted #>> array['queues', r.queue, '0'])::bigint, 0) else 0 end, 0)) as done,
      sum(greatest(r.failed - case when r.counted ->> 'start' = r.start
        then coalesce((r.counted #>> array['queues', r.queue, '1'])::bigint, 0) else 0 end, 0)) as failed
    from reported r join penstock.queue q on q.name = r.queue
    where r.counted is not null or r.start::timestamptz >= _chart_depths.at
    group by q.id
  ), queues as (
    select d.id, d.ready, d.leased, d.scheduled, d.dead, d.estimated, coalesce(w.done, 0) as done,
      coalesce(w.failed, 0) as failed
    from depth d left join worked w on w.id = d.id
  )
  insert into penstock.chart_point (slot, queue_id, is_hour, estimated, at, ready, leased, scheduled, dead, done,
    failed)
  select penstock._chart_slot(false, _chart_depths.at), n.id, false, n.estimated, _chart_depths.at, n.ready, n.leased,
    n.scheduled, n.dead, n.done, n.failed
  from (select * from queues where ready + leased + scheduled + dead + done + failed > 0
        union all
        select 0, coalesce(sum(ready), 0), coalesce(sum(leased), 0), coalesce(sum(scheduled), 0),
          coalesce(sum(dead), 0), coalesce(bool_or(estimated), false), coalesce(sum(done), 0), coalesce(sum(failed), 0)
        from queues) n;
  get diagnostics added = row_count;
  return added;
end $$;

-- Adds the minutes of each hour up, three minutes after its end, and returns the end of the last hour that is done.
-- What is counted for these hours later is inserted as another row of the hour. Locks: the new
-- rows only. Uses chart_point_at.
create or replace function penstock._add_up_hours(done_until timestamptz, now_at timestamptz) returns timestamptz
language plpgsql as $$
#variable_conflict use_column
declare
  until constant timestamptz := penstock._chart_step('1 hour', now_at - interval '3 minutes');
begin
  if done_until is null or done_until >= until then
    return case when done_until > now_at + interval '2 hours' then until else coalesce(done_until, until) end;
  end if;
  with points as materialized (
    select p.*, penstock._chart_step('1 hour', p.at) as hour from penstock.chart_point p
    where not p.is_hour and p.at >= done_until and p.at < until
  ), waits as (
    select b.queue_id, b.hour, array_agg(array[b.bucket, b.n] order by b.bucket) as pairs
    from (select p.queue_id, p.hour, p.waits[i][1] as bucket, sum(p.waits[i][2])::integer as n
          from points p cross join generate_subscripts(p.waits, 1) i group by 1, 2, 3) b
    group by 1, 2
  ), runs as (
    select b.queue_id, b.hour, array_agg(array[b.bucket, b.n] order by b.bucket) as pairs
    from (select p.queue_id, p.hour, p.runs[i][1] as bucket, sum(p.runs[i][2])::integer as n
          from points p cross join generate_subscripts(p.runs, 1) i group by 1, 2, 3) b
    group by 1, 2
  ), hours as (
    select p.queue_id, p.hour, bool_or(p.estimated) as estimated, max(p.ready) as ready, max(p.leased) as leased,
      max(p.scheduled) as scheduled, max(p.dead) as dead, sum(p.done) as done, sum(p.failed) as failed,
      sum(p.died) as died
    from points p group by p.queue_id, p.hour
  )
  insert into penstock.chart_point (slot, queue_id, is_hour, estimated, at, ready, leased, scheduled, dead, done,
    failed, died, waits, runs)
  select penstock._chart_slot(true, h.hour), h.queue_id, true, h.estimated, h.hour, h.ready, h.leased, h.scheduled,
    h.dead, h.done, h.failed, h.died, w.pairs, r.pairs
  from hours h left join waits w on w.queue_id = h.queue_id and w.hour = h.hour
    left join runs r on r.queue_id = h.queue_id and r.hour = h.hour;
  return until;
end $$;

-- Truncates the slots that the next periods will use. A slot that a reader or a dump locks is tried again next time.
-- Locks: ACCESS EXCLUSIVE (NOWAIT) on the slot. Uses no index.
create or replace function penstock._clear_charts(cleared bigint[], now_at timestamptz) returns bigint[]
language plpgsql as $$
declare
  slot integer;
begin
  for kind in 1 .. 2 loop
    continue when cleared[kind] = penstock._chart_period(kind = 2, now_at);
    slot := penstock._chart_slot(kind = 2,
      now_at + case when kind = 2 then interval '30 days' else interval '12 hours' end);
    begin
      execute format('lock table penstock.chart_point_%s in access exclusive mode nowait', slot);
      execute format('truncate penstock.chart_point_%s', slot);
      cleared[kind] := penstock._chart_period(kind = 2, now_at);
    exception when lock_not_available then
      null;
    end;
  end loop;
  return cleared;
end $$;
