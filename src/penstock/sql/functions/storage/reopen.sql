-- Puts a closing segment, or segment 0, back into use because a message was found in it.
-- Locks: the lock of the ring, without waiting, released at once. Indexes: none.
create or replace function penstock._reopen(slot text) returns void language plpgsql as $$
declare
  ring text;
begin
  if not pg_try_advisory_lock({lock.ring}) then
    return;
  end if;
  begin
    ring := {ring.text};
    if strpos({ring.in_use(ring)}, slot) = 0 then
      perform setval('penstock.ring', {ring.of(replace({ring.closing(ring)}, slot, ''), slot || {ring.in_use(ring)})});
      perform setval(('penstock.drained_' || slot)::regclass, 0);
    end if;
  exception when query_canceled or others then
    perform pg_advisory_unlock({lock.ring});
    raise;
  end;
  perform pg_advisory_unlock({lock.ring});
end $$;
