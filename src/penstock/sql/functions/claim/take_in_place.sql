-- Leases the next ready messages of a lane in a segment where they are, and returns them with their tokens. For claim,
-- whose planner settings it needs. places: the rows that _pick has locked, or null. new_hold: the value for the
-- column hold. A token has room for 2^24 blocks. CASE keeps the planner from scanning the table by ctid.
-- Locks: ROW EXCLUSIVE on the segment; the rows it takes, with SKIP LOCKED. Uses lane_N_order from the floor on.
create or replace function penstock._take_in_place(slot integer, lane_queue integer, lane_rank smallint,
  lane_floor bigint, wanted integer, places tid[], new_hold bigint, started timestamptz, until timestamptz, queue text,
  worker text)
returns setof penstock.lease language plpgsql as $$
#variable_conflict use_column
declare
  tokens_from constant bigint := penstock._held_from(penstock._hold_mark(new_hold));
begin
  --: branch on slot
  return query
  with held as (
    update penstock.lane_{slot} l set hold = new_hold
    where l.ctid = any (case when places is null then array(
      select r.ctid from penstock.lane_{slot} r
      where r.queue_id = lane_queue and r.priority = lane_rank and r.position >= lane_floor and r.hold = 0
        and (r.group_key, r.expires_at) is null and case when r.ctid < {token.place_limit} then true end
      order by r.position limit wanted for update skip locked) else places end)
    returning tokens_from + bigint '{slot}' + penstock._held_at(l.ctid) as token, l.position, l.id, l.enqueued_at,
      l.attempt + 1 as attempt, l.max_attempts, l.body_slot, l.key, l.headers, l.payload, l.payload_bytes, l.last_error,
      lane_rank as priority, null::text as group_key, until as lease_until, null::timestamptz as expires_at),
  granted as (
    insert into penstock.grant_{slot} (lease_until, hold, claimed_at, queue_id, priority, first_position, last_position,
      worker)
    select until, new_hold, started, lane_queue, lane_rank, min(h.position), max(h.position), _take_in_place.worker
    from held h having count(*) > 0)
  select {lease.row(h, _take_in_place.queue, null::text)}
  from held h order by h.position;
  --: end
end $$;
