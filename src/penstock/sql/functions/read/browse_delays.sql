-- Scheduled messages by due time; messages that are due and not moved yet. place: due_at, id. Locks: ACCESS SHARE. Uses
-- scheduled_due; for one queue scheduled_queue.
create or replace function penstock._browse_delays(due boolean, ids integer[], everywhere boolean,
  filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  now_at    timestamptz := clock_timestamp();
  from_time timestamptz := coalesce(split_part(place, ' ', 1)::timestamptz, case when due then '-infinity'
    else now_at end);
  from_id   bigint := coalesce(split_part(place, ' ', 2)::bigint, -1);
  to_time   timestamptz := case when due then now_at else 'infinity' end;
  one       constant integer := case when cardinality(ids) = 1 then ids[1] end;
  r         record;
  looked    integer := 0;
begin
  for r in
    select t.due_at, (everywhere or t.queue_id = any (ids))
      and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at) as fits,
      ({envelope.columns(t)})::penstock.envelope as m,
      (select q.name from penstock.queue q where q.id = t.queue_id) as queue
    from penstock.scheduled t
    where t.due_at >= from_time and t.due_at <= to_time and (t.due_at, t.id) > (from_time, from_id)
      and t.group_key is null
      and (one is null or t.queue_id = one)
    order by t.due_at, t.id
  loop
    looked := looked + 1;
    place := penstock._stamp(r.due_at) || ' ' || (r.m).id;
    if r.fits then
      return next penstock._browse_row(r.queue, case when due then 'ready' else 'scheduled' end, r.m, r.due_at, place);
      page := page - 1;
    end if;
    if page <= 0 or looked >= look then
      return next penstock._page_end(place, looked);
      return;
    end if;
  end loop;
  return next penstock._page_end(null, looked);
end $$;
