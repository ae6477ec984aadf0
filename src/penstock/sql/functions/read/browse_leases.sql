-- Leased messages by the end of the lease; messages whose lease has expired ('lapsed'); claimed dead letters. place:
-- lease_until, id. Locks: ACCESS SHARE. Uses leased_N_until and grant_N_until.
create or replace function penstock._browse_leases(part text, ids integer[], everywhere boolean,
  filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  now_at    timestamptz := clock_timestamp();
  from_time timestamptz := coalesce(split_part(place, ' ', 1)::timestamptz, case when part = 'leased' then now_at
    else '-infinity' end);
  from_id   bigint := coalesce(split_part(place, ' ', 2)::bigint, -1);
  to_time   timestamptz := case when part = 'lapsed' then now_at else 'infinity' end;
  r         record;
  looked    integer := 0;
begin
  for r in
    select c.lease_until, c.fits, c.m, case when c.fits
      then (select q.name from penstock.queue q where q.id = (c.m).queue_id) end as queue from (
      select now() as lease_until, 0::bigint as id, null::boolean as fits, null::penstock.envelope as m where false
      --: for each segment
      union all
      select t.lease_until, t.id, (everywhere or t.queue_id = any (ids)) and (t.dead_at is not null)
        = (part = 'dead and claimed')
          and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at),
        ({envelope.columns(t)})::penstock.envelope as m
      from penstock.leased_{slot} t where t.lease_until >= from_time and t.lease_until <= to_time
        and (t.lease_until, t.id) > (from_time, from_id)
      union all
      select t.lease_until, t.id, (everywhere or t.queue_id = any (ids)) and part <> 'dead and claimed'
          and penstock._matches(filter, t.key, t.last_error, t.worker, t.enqueued_at),
        ({envelope.columns(t)})::penstock.envelope as m
      from penstock.grant_{slot} g join penstock.held_{slot} t
        on t.queue_id = g.queue_id and t.priority = g.priority and t.position between g.first_position
          and g.last_position and t.hold = g.hold
      where g.lease_until >= from_time and g.lease_until <= to_time and (g.lease_until, t.id) > (from_time, from_id)
      --: end
    ) c order by c.lease_until, c.id
  loop
    looked := looked + 1;
    place := penstock._stamp(r.lease_until) || ' ' || (r.m).id;
    if r.fits then
      return next penstock._browse_row(r.queue, case
        when r.lease_until > now_at then 'leased' when (r.m).dead_at is null
                                     then 'ready' else 'dead' end, r.m, r.lease_until, place);
      page := page - 1;
    end if;
    if page <= 0 or looked >= look then
      return next penstock._page_end(place, looked);
      return;
    end if;
  end loop;
  return next penstock._page_end(null, looked);
end $$;
