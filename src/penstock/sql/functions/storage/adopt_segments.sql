-- Puts segments that hold rows into the ring if it does not list them. That happens after a restore: a dump holds the
-- rows of one moment and the registers of another. Returns how many. Locks: the lock of the ring, by _reopen. Indexes:
-- none.
create or replace function penstock._adopt_segments() returns integer language plpgsql as $$
declare
  n integer := 0;
begin
  --: for each segment
  if not {slot} = any (penstock._used_slots()) or {slot} = 0 and strpos({ring.in_use({ring.text})}, '0') = 0 then
    if exists (select from penstock.lane_{slot}) or exists (select from penstock.leased_{slot})
      or exists (select from penstock.body_{slot}) then
      perform penstock._reopen('{slot}');
      n := n + 1;
    end if;
  end if;
  --: end
  return n;
end $$;
