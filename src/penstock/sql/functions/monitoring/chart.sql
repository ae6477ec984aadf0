-- Returns what happened in a queue, or in all queues if it is null: one row for each step since a time in which
-- something was recorded. is_hour says whether to read the hours, which are kept for longer, or the minutes. Depths are
-- the highest ones of the step, and null if none was recorded. waits and runs are the 50th, 95th and 99th percentile in
-- seconds. Locks: ACCESS SHARE. Uses chart_point_at.
create or replace function penstock.chart(queue text, since timestamptz, step interval, is_hour boolean)
returns table (at timestamptz, ready bigint, leased bigint, scheduled bigint, dead bigint, estimated boolean,
  done bigint, failed bigint, died bigint, waits double precision[], runs double precision[])
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  wanted integer := 0;
begin
  if chart.queue is not null then
    select q.id into wanted from penstock.queue q where q.name = chart.queue;
    if not found then
      perform penstock._fail_unknown_queue(chart.queue);
    end if;
  end if;
  return query
  with point as materialized (
    select penstock._chart_step(chart.step, p.at) as start, p.* from penstock.chart_point p
    where p.queue_id = wanted and p.is_hour = chart.is_hour and p.at >= chart.since
  ), recorded as (
    -- The row of all queues exists for each minute whose depths were recorded.
    select distinct penstock._chart_step(chart.step, p.at) as start from penstock.chart_point p
    where p.queue_id = 0 and p.is_hour = chart.is_hour and p.at >= chart.since and p.ready is not null
  ), number as (
    select p.start, max(p.ready) as ready, max(p.leased) as leased, max(p.scheduled) as scheduled, max(p.dead) as dead,
      bool_or(p.estimated) as estimated, sum(p.done)::bigint as done, sum(p.failed)::bigint as failed,
      sum(p.died)::bigint as died
    from point p group by p.start
  ), bucket as (
    select p.start, false as is_run, p.waits[i][1] as bucket, sum(p.waits[i][2]) as n
    from point p cross join generate_subscripts(p.waits, 1) i group by 1, 2, 3
    union all
    select p.start, true, p.runs[i][1], sum(p.runs[i][2])
    from point p cross join generate_subscripts(p.runs, 1) i group by 1, 2, 3
  ), ranked as (
    select b.start, b.is_run, b.bucket, sum(b.n) over (partition by b.start, b.is_run order by b.bucket) as upto,
      sum(b.n) over (partition by b.start, b.is_run) as total
    from bucket b
  ), percentile as (
    select r.start, r.is_run, array[
      penstock._bucket_seconds(min(r.bucket) filter (where r.upto >= 0.5 * r.total)),
      penstock._bucket_seconds(min(r.bucket) filter (where r.upto >= 0.95 * r.total)),
      penstock._bucket_seconds(min(r.bucket) filter (where r.upto >= 0.99 * r.total))] as seconds
    from ranked r group by 1, 2
  )
  select s.start, case when r.start is not null then coalesce(n.ready, 0) end,
    case when r.start is not null then coalesce(n.leased, 0) end,
    case when r.start is not null then coalesce(n.scheduled, 0) end,
    case when r.start is not null then coalesce(n.dead, 0) end, coalesce(n.estimated, false), coalesce(n.done, 0),
    coalesce(n.failed, 0), coalesce(n.died, 0), w.seconds, u.seconds
  from (select start from recorded union select start from number) s left join recorded r on r.start = s.start
    left join number n on n.start = s.start
    left join percentile w on w.start = s.start and not w.is_run
    left join percentile u on u.start = s.start and u.is_run
  order by 1;
end $$;
