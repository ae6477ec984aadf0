-- _first_live returns the first ready position of a lane in a segment, from a position on. Locks: ACCESS SHARE. Uses
-- lane_N_order.
create or replace function penstock._first_live(slot integer, queue_id integer, priority smallint, from_position bigint)
returns bigint language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
  --: branch on slot
  return (select r.position from penstock.ready_{slot} r where r.queue_id = _first_live.queue_id
          and r.priority = _first_live.priority and r.position >= from_position order by r.position limit 1);
  --: end
end $$;

-- The same for messages that are ready or leased in place. Locks: ACCESS SHARE. Uses lane_N_order.
create or replace function penstock._first_in_lane(slot integer, queue_id integer, priority smallint)
returns bigint language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
  --: branch on slot
  return (select l.position from penstock.lane_{slot} l where l.queue_id = _first_in_lane.queue_id
          and l.priority = _first_in_lane.priority order by l.position limit 1);
  --: end
end $$;
