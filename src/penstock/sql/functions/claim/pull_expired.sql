-- Takes messages with expired leases out of a segment; the caller puts them back. A message whose key is locked by
-- another transaction is left for the next time, because a claim must not wait. A grant without leased messages is
-- deleted.
-- Locks: the rows, with SKIP LOCKED. Uses leased_N_until, grant_N_until and lane_N_order.
create or replace function penstock._pull_expired(slot integer, only_queue integer, after timestamptz,
  until timestamptz, piece integer)
returns setof penstock.leased_0 language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
#variable_conflict use_column
declare
  n integer;
begin
  --: branch on slot
  return query delete from penstock.leased_{slot} where ctid = any (array(
    select l.ctid from penstock.leased_{slot} l
    where l.lease_until > after and l.lease_until <= until and (only_queue is null or l.queue_id = only_queue)
      and (l.key is null or penstock._try_key(l.queue_id, l.key, l.id))
    order by l.lease_until limit piece for update skip locked)) returning *;
  get diagnostics n = row_count;
  if n >= piece or not exists (select from penstock.grant_{slot} g where g.lease_until > after
    and g.lease_until <= until
                               and (only_queue is null or g.queue_id = only_queue)) then
    return;
  end if;
  -- Each grant is looked up by itself. A join of many grants with a lane that the planner takes for empty reads the
  -- whole lane for each of them, which has taken a second.
  return query delete from penstock.held_{slot} where place = any (array(
    select t.place from penstock.grant_{slot} g cross join lateral (
      select r.ctid as place from penstock.lane_{slot} r
      where r.queue_id = g.queue_id and r.priority = g.priority and r.position between g.first_position
        and g.last_position
        and r.hold = g.hold and (r.key is null or penstock._try_key(r.queue_id, r.key, r.id))
      limit piece - n for update skip locked) t
    where g.lease_until > after and g.lease_until <= until and (only_queue is null or g.queue_id = only_queue)
    order by g.lease_until limit piece - n)) returning {leased};
  delete from penstock.grant_{slot} where ctid = any (array(
    select g.ctid from penstock.grant_{slot} g
    where g.lease_until > after and g.lease_until <= until and (only_queue is null or g.queue_id = only_queue)
      and (select count(*) from (select from penstock.lane_{slot} r where r.queue_id = g.queue_id
        and r.priority = g.priority
                                 and r.position between g.first_position and g.last_position and r.hold = g.hold
                                   limit 1) s) = 0
    order by g.lease_until limit 500 for update skip locked));
  --: end
end $$;
