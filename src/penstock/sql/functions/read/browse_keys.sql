-- Waiting messages with a key: at most a few in each queue. place: queue, id. Locks: ACCESS SHARE. Uses lane_N_key,
-- scheduled_key and grouped_key.
create or replace function penstock._browse_keys(state text, queues text[], filter penstock.sight_filter, place text,
  page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_at     timestamptz := clock_timestamp();
  from_queue text := coalesce(split_part(place, ' ', 1), '');
  from_id    bigint := coalesce(split_part(place, ' ', 2)::bigint, -1);
  q      penstock.queue;
  r      record;
  looked integer := 0;
begin
  for q in select * from penstock.queue t where (queues is null or t.name = any (queues)) and t.name >= from_queue
    order by t.name loop
    for r in
      select c.*, penstock._matches(filter, (c.m).key, (c.m).last_error, (c.m).worker, (c.m).enqueued_at) as fits from (
        select t.due_at as visible_at, ({envelope.columns(t)})::penstock.envelope as m
        from penstock.scheduled t where t.queue_id = q.id and t.key = filter.key and t.group_key is null
        union all
        select t.visible_at, penstock._envelope(t) from penstock.grouped t where t.queue_id = q.id
          and t.key = filter.key
        --: for each segment
        union all
        select t.enqueued_at, ({envelope.columns(t)})::penstock.envelope
        from penstock.ready_{slot} t where t.queue_id = q.id and t.key = filter.key and t.group_key is null
        --: end
      ) c where (c.visible_at > now_at) = (_browse_keys.state = 'scheduled')
        and (q.name > from_queue or (c.m).id > from_id)
      order by (c.m).id
    loop
      looked := looked + 1;
      place := q.name || ' ' || (r.m).id;
      if r.fits then
        return next penstock._browse_row(q.name, _browse_keys.state, r.m, r.visible_at, place);
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
