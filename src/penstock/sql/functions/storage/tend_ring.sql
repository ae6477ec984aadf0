-- Truncates closed segments, and moves the messages left in the oldest one to the overflow segment when segments run
-- short. Returns how many segments became free.
-- Locks until the end of the transaction: ACCESS EXCLUSIVE (NOWAIT) on the tables of segments that are no longer in
-- use, and the lock of the ring, so that no other session uses these segments before the commit. Indexes: none.
create or replace function penstock._tend_ring() returns integer language plpgsql as $$
declare
  ring    text;
  closing text;
  live    text;
  slot    text;
  freed   integer := 0;
begin
  if not penstock._close_segments() or not pg_try_advisory_xact_lock({lock.ring}) then
    return 0;
  end if;
  ring := {ring.text};
  closing := {ring.closing(ring)};
  live := {ring.in_use(ring)};
  foreach slot in array regexp_split_to_array(closing, '') loop
    continue when slot = '';
    if penstock._is_drained(slot) and penstock._free_segment(slot) then
      closing := replace(closing, slot, '');
      perform setval('penstock.ring', {ring.of(closing, live)});
      freed := freed + 1;
    end if;
  end loop;
  if length(closing || replace(live, '0', '')) >= {ring.crowded} then
    perform penstock._clear_oldest(left(closing || replace(live, '0', ''), 1)::integer);
  elsif strpos(live, '0') > 0 and penstock._is_drained('0') and penstock._free_segment('0') then
    perform setval('penstock.ring', {ring.of(closing, replace(live, '0', ''))});
  end if;
  return freed;
end $$;
