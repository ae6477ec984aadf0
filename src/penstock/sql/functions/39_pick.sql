-- Picking what is ready. A claim that holds its messages where they are changes rows that others are looking at, and FOR
-- UPDATE SKIP LOCKED follows such a row to its newest version, locks that, and only then finds that it is not ready any
-- more. The lock stays until the transaction ends, and the holder waits for it when it settles: a millisecond, if the claim is all
-- there is to the transaction; but a claim may as well be the first act of a long one.

-- The next ready rows of a lane in a segment, locked; and in a transaction that goes on, no others: where there are, all locks
-- are given back, by rolling back to where we began, and it looks again. plain: only messages that a claim may hand out as
-- they are. One statement finds and locks them; another looks whether the same (sub)transaction locked rows on the way
-- that somebody holds.
select penstock._for_each_segment(replace($unroll$
create or replace function penstock._pick_{slot}(lane_queue integer, lane_rank smallint, floor bigint, wanted integer, plain boolean, alone boolean) returns tid[]
language plpgsql as $$
#variable_conflict use_column
declare
  places tid[];
  clean  boolean;
begin
  if alone then
    return {ready};
  end if;
  for turn in 1 .. 100 loop
    begin
      places := {ready};
      select not exists (select from penstock.lane_{slot} l where l.queue_id = lane_queue and l.priority = lane_rank and l.position >= floor
                         and l.position <= case when cardinality(places) < wanted then 9223372036854775807 else last.position end
                         and l.hold <> 0 and l.xmax = last.xmax) into clean
      from penstock.lane_{slot} last where last.ctid = places[cardinality(places)];
      if clean then
        return places;
      end if;
      raise sqlstate 'PS001';
    exception when sqlstate 'PS001' then
      exit when places = '{}';
    end;
  end loop;
  return '{}';
end $$;
$unroll$, '{ready}', $ready$array(
      select r.ctid from penstock.lane_{slot} r
      where r.queue_id = lane_queue and r.priority = lane_rank and r.position >= floor and r.hold = 0
        and (not plain or (r.group_key, r.expires_at) is null and r.ctid < '(16777216,0)')
      order by r.position limit wanted for update skip locked)$ready$));

select penstock._unroll($unroll$
create or replace function penstock._pick(slot integer, lane_queue integer, lane_rank smallint, floor bigint, wanted integer, plain boolean, alone boolean) returns tid[]
language plpgsql as $$
begin
  --[ slot
  return penstock._pick_{slot}(lane_queue, lane_rank, floor, wanted, plain, alone);
  --]
end $$;
$unroll$);
