-- Dead letters, the newest messages first. place: id. Locks: ACCESS SHARE. Uses dead_pkey; for one queue dead_queue.
create or replace function penstock._browse_dead(ids integer[], everywhere boolean, filter penstock.sight_filter,
  place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  from_id bigint := coalesce(place::bigint, {bigint.max});
  one     constant integer := case when cardinality(ids) = 1 then ids[1] end;
  r       record;
  looked  integer := 0;
begin
  for r in
    select t.dead_at, (everywhere or t.queue_id = any (ids))
      and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at) as fits,
      ({envelope.columns(t)})::penstock.envelope as m,
      (select q.name from penstock.queue q where q.id = t.queue_id) as queue
    from penstock.dead t where t.id < from_id and (one is null or t.queue_id = one) order by t.id desc
  loop
    looked := looked + 1;
    place := (r.m).id;
    if r.fits then
      return next penstock._browse_row(r.queue, 'dead', r.m, r.dead_at, place);
      page := page - 1;
    end if;
    if page <= 0 or looked >= look then
      return next penstock._page_end(place, looked);
      return;
    end if;
  end loop;
  return next penstock._page_end(null, looked);
end $$;
