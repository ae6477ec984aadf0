-- Returns the ready messages of each queue in the minutes of the last hour in which it had any, for the small charts in
-- lists. The empty name stands for all queues. Locks: ACCESS SHARE. Uses chart_point_at.
create or replace function penstock.recent_depths() returns table (queue text, at timestamptz[], ready bigint[])
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
  select coalesce(q.name, ''), array_agg(p.at order by p.at), array_agg(p.ready order by p.at)
  from penstock.chart_point p left join penstock.queue q on q.id = p.queue_id
  where not p.is_hour and p.at >= clock_timestamp() - interval '1 hour' and p.ready is not null
    and (p.queue_id = 0 or q.id is not null)
  group by q.name
$$;
