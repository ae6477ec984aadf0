-- Finished messages, the last finished first. place: xid, id. Locks: ACCESS SHARE. Uses history_log_xid.
create or replace function penstock._browse_history(state text, queues text[], filter penstock.sight_filter, place text,
  page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  from_xid xid8 := coalesce(split_part(place, ' ', 1)::xid8, {xid8.max});
  from_id  bigint := coalesce(split_part(place, ' ', 2)::bigint, {bigint.max});
  r        record;
  looked   integer := 0;
begin
  for r in
    select h.*, (_browse_history.state is null or h.state = _browse_history.state)
      and (queues is null or h.queue = any (queues))
                and penstock._matches(filter, h.key, h.last_error, h.worker, h.enqueued_at) as fits
    from penstock.history h where (h.xid, h.id) < (from_xid, from_id) order by h.xid desc, h.id desc
  loop
    looked := looked + 1;
    place := r.xid || ' ' || r.id;
    if r.fits then
      return next (r.id, r.queue, r.state, r.priority, r.attempts, r.max_attempts, r.enqueued_at, r.finished_at, r.key,
        r.group_key, r.worker, left(r.last_error, 300), case when r.payload is not null then left(r.payload::text, 160)
        else octet_length(r.payload_bytes) || ' bytes' end, place, null)::penstock.sighting;
      page := page - 1;
    end if;
    if page <= 0 or looked >= look then
      return next penstock._page_end(place, looked);
      return;
    end if;
  end loop;
  return next penstock._page_end(null, looked);
end $$;
