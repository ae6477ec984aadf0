-- Picks ready rows. A claim that leases messages in place changes rows that other claims are looking at. FOR UPDATE
-- SKIP LOCKED follows such a row to its newest version, locks that version, and only then finds that it is no longer
-- ready. The lock stays until the transaction ends, and the holder of the lease waits for it when it settles the
-- message. That is a millisecond if the transaction consists of the claim, but a claim may also be the first statement
-- of a long transaction.
--
-- _pick_N returns the next ready rows of a lane in a segment, locked. Unless the claim is alone in its transaction, it
-- locks no other rows: if it has, it rolls back to the beginning of the block, which releases all its locks, and looks
-- again. One statement finds and locks the rows. Another one looks whether the same (sub)transaction has locked leased
-- rows on the way: their xmax is that of the last row picked. In a segment without grants no message is leased in
-- place, and one statement is enough. plain: only messages that a claim may hand out as they are.
-- Locks: the rows, until commit. Uses lane_N_order.
--: define ready as
array(
      select r.ctid from penstock.lane_{slot} r
      where r.queue_id = lane_queue and r.priority = lane_rank and r.position >= floor and r.hold = 0
        and (not plain or (r.group_key, r.expires_at) is null and r.ctid < {token.place_limit})
      order by r.position limit wanted for update skip locked)
--: end
--: for each segment
create or replace function penstock._pick_{slot}(lane_queue integer, lane_rank smallint, floor bigint, wanted integer,
  plain boolean, alone boolean) returns tid[]
language plpgsql as $$
#variable_conflict use_column
declare
  places tid[];
  clean  boolean;
begin
  if alone or pg_relation_size('penstock.grant_{slot}', 'main') = bigint '0' then
    return {ready};
  end if;
  for turn in 1 .. 100 loop
    begin
      places := {ready};
      select not exists (select from penstock.lane_{slot} l where l.queue_id = lane_queue and l.priority = lane_rank
        and l.position >= floor
                         and l.position <= case when cardinality(places) < wanted then {bigint.max}
                           else last.position end
                         and l.hold <> 0 and l.xmax = last.xmax) into clean
      from penstock.lane_{slot} last where last.ctid = places[cardinality(places)];
      if clean then
        return places;
      end if;
      raise sqlstate {sqlstate.undo};
    exception when sqlstate {sqlstate.undo} then
      exit when places = '{}';
    end;
  end loop;
  return '{}';
end $$;
--: end

-- The same for a segment that is known at run time.
create or replace function penstock._pick(slot integer, lane_queue integer, lane_rank smallint, floor bigint,
  wanted integer, plain boolean, alone boolean) returns tid[]
language plpgsql as $$
begin
  --: branch on slot
  return penstock._pick_{slot}(lane_queue, lane_rank, floor, wanted, plain, alone);
  --: end
end $$;
