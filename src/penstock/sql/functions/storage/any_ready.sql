-- Does a segment hold a ready message? Looks along the floors of all lanes, which skips dead rows. With more than 500
-- queues it scans the segment instead. Locks: ACCESS SHARE. Uses lane_N_order.
create or replace function penstock._any_ready(slot integer) returns boolean language plpgsql as $$
declare
  q     penstock.queue;
  found boolean;
begin
  if (select count(*) from (select from penstock.queue limit 501) c) > 500 then
    execute format('select exists (select from penstock.lane_%1$s where ctid >= $1 and hold = 0) or exists (select
      from penstock.lane_%1$s where hold = 0)', slot)
    into found using penstock._late_block('lane_' || slot, 200);
    return found;
  end if;
  for q in select * from penstock.queue loop
    q := penstock._with_lanes(q);
    for lane in 1 .. cardinality(q.priorities) loop
      if penstock._first_live(slot, q.id, q.priorities[lane],
        {register.value(q.floors[lane])}) is not null then
        return true;
      end if;
    end loop;
  end loop;
  return false;
end $$;
