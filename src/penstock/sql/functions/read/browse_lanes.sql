-- Ready messages, in the order of claims, queue by queue. place: queue, priority, position. Begins at the floors, which
-- skips dead rows. Locks: ACCESS SHARE. Uses lane_N_order.
create or replace function penstock._browse_lanes(queues text[], filter penstock.sight_filter, place text, page integer,
  look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  from_queue    text := coalesce(split_part(place, ' ', 1), '');
  from_rank     integer := nullif(split_part(place, ' ', 2), '');
  from_position bigint := nullif(split_part(place, ' ', 3), '');
  q      penstock.queue;
  start  bigint;
  r      record;
  looked integer := 0;
begin
  for q in select * from penstock.queue t where (queues is null or t.name = any (queues)) and t.name >= from_queue
    order by t.name loop
    q := penstock._with_lanes(q);
    for lane in 1 .. cardinality(q.priorities) loop
      continue when q.name = from_queue and q.priorities[lane] > from_rank;
      start := case when q.name = from_queue and q.priorities[lane] = from_rank then from_position + 1
        else {register.value(q.floors[lane])} end;
      for r in
        select * from (
          select 0::bigint as position, null::boolean as fits, null::penstock.envelope as m where false
          --: for each segment
          union all
          select t.position, penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at),
            ({envelope.columns(t)})::penstock.envelope as m
          from penstock.ready_{slot} t where t.queue_id = q.id and t.priority = q.priorities[lane]
            and t.position >= start and t.group_key is null
          --: end
        ) c order by c.position
      loop
        looked := looked + 1;
        place := concat_ws(' ', q.name, q.priorities[lane], r.position);
        if r.fits then
          return next penstock._browse_row(q.name, 'ready', r.m, (r.m).enqueued_at, place);
          page := page - 1;
        end if;
        if page <= 0 or looked >= look then
          return next penstock._page_end(place, looked);
          return;
        end if;
      end loop;
    end loop;
  end loop;
  return next penstock._page_end(null, looked);
end $$;
