-- Returns the messages that were done and the attempts that failed in each queue in the last five minutes, exactly,
-- from the minutes of the charts. The current minute counts as far as it was recorded. The empty name stands for all
-- queues, and always has a row. is_current says whether the charts include everything that ended until two minutes ago.
-- Locks: ACCESS SHARE. Uses chart_point_at.
create or replace function penstock.recent_outcomes()
returns table (queue text, done bigint, failed bigint, is_current boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := clock_timestamp();
  since  constant timestamptz := penstock._chart_step('1 minute', now_at - interval '5 minutes');
  slots  constant smallint[] := array[penstock._chart_slot(false, since), penstock._chart_slot(false, now_at)];
begin
  return query
  select e.name, coalesce(p.done, 0)::bigint, coalesce(p.failed, 0)::bigint,
    not c.is_behind and coalesce(c.recorded_at > now_at - interval '2 minutes', false)
  from penstock.chart_progress c
    cross join (select 0, '' union all select q.id, q.name from penstock.queue q) e (id, name)
    cross join lateral (
      select sum(t.done) as done, sum(t.failed) as failed from penstock.chart_point t
      where t.slot = any (slots) and t.queue_id = e.id and not t.is_hour and t.at >= since) p
  where e.id = 0 or p.done > 0 or p.failed > 0;
end $$;
