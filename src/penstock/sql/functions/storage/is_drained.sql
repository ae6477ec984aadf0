-- Has a segment been empty for a second? TRUNCATE is not MVCC-safe: an older snapshot finds the table empty, and misses
-- messages that have since moved to a place it cannot see. pg_dump locks all tables soon after it takes its snapshot,
-- so this second keeps dumps complete. A segment that was found empty is not looked at again until the second is over
-- and it is locked, because finding nothing takes longest. Only a late commit could fill it, and a rescan that finds
-- its message reopens the segment. The overflow segment may fill again at any time.
-- Locks: ACCESS SHARE. Reads the last blocks of the segment first, without an index.
create or replace function penstock._is_drained(slot text) returns boolean language plpgsql as $$
declare
  register regclass := ('penstock.drained_' || slot)::regclass;
  since_us bigint := {register.value(register)};
  now_us   bigint := date_part('epoch', clock_timestamp()) * 1e6;
begin
  if (slot = '0' or since_us not between 1 and now_us) and penstock._holds_rows(slot) then
    if since_us > 0 then
      perform setval(register, 0);
    end if;
    return false;
  end if;
  if since_us not between 1 and now_us then
    perform setval(register, now_us);
    return false;
  end if;
  return now_us - since_us >= {timing.second};
end $$;

-- Does a segment hold rows? The last blocks are read first: if a segment is not empty, its rows are there. Locks:
-- ACCESS SHARE.
create or replace function penstock._holds_rows(slot text) returns boolean language plpgsql as $$
declare
  found boolean;
begin
  execute replace('select exists (select from penstock.lane_# where ctid >= $1) or exists (select from penstock.leased_#
    where ctid >= $2)
                     or exists (select from penstock.lane_#) or exists (select from penstock.leased_#) or exists (select
                       from penstock.body_#)', '#', slot)
  into found using penstock._late_block('lane_' || slot, 8), penstock._late_block('leased_' || slot, 8);
  return found;
end $$;
