-- Returns the current segment and keeps it in the ring until the end of the transaction.
-- Locks: ROW EXCLUSIVE on its lane until commit, which conflicts with the lock that truncates it. Indexes: none.
create or replace function penstock._lock_current() returns integer language plpgsql as $$
declare
  slot integer;
begin
  loop
    slot := {ring.current({ring.value})};
    --: branch on slot
    delete from penstock.lane_{slot} where false;
    --: end
    if strpos({ring.text}, slot::text) > 0 then
      return slot;
    end if;
  end loop;
end $$;
