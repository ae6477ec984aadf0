-- Waiting messages of groups, in the order of each group, queue by queue. place: queue, position, group. Locks: ACCESS
-- SHARE. Uses grouped_order.
create or replace function penstock._browse_groups(due boolean, queues text[], filter penstock.sight_filter, place text,
  page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  now_at        timestamptz := clock_timestamp();
  from_queue    text := coalesce(split_part(place, ' ', 1), '');
  from_position bigint := coalesce(split_part(place, ' ', 2)::bigint, -1);
  from_group    text := coalesce(substr(place, length(from_queue) + length(from_position::text) + 3), '');
  q      penstock.queue;
  r      record;
  looked integer := 0;
begin
  for q in select * from penstock.queue t where (queues is null or t.name = any (queues)) and t.name >= from_queue
    order by t.name loop
    for r in
      select t.position, t.visible_at, (t.visible_at <= now_at) = due
        and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at) as fits,
             penstock._envelope(t) as m
      from penstock.grouped t
      where t.queue_id = q.id and (q.name > from_queue or t.group_key >= from_group)
        and (q.name > from_queue or (t.group_key, t.position) > (from_group, from_position))
      order by t.group_key, t.position
    loop
      looked := looked + 1;
      place := concat_ws(' ', q.name, r.position, (r.m).group_key);
      if r.fits then
        return next penstock._browse_row(q.name, case when due then 'ready'
          else 'scheduled' end, r.m, r.visible_at, place);
        page := page - 1;
      end if;
      if page <= 0 or looked >= look then
        return next penstock._page_end(place, looked);
        return;
      end if;
    end loop;
  end loop;
  return next penstock._page_end(null, looked);
end $$;
