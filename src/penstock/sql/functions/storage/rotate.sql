-- Makes the next free segment the current one, once the current one has had its share of positions (or at once, if
-- early). Without a free segment the current one grows until there is one. Only registers change, so any transaction
-- may do this.
-- Locks: the lock of the ring, without waiting, released at once. Indexes: none.
create or replace function penstock._rotate(early boolean default false) returns void language plpgsql as $$
declare
  share constant bigint := {ring.share};
  ring  text;
  high  bigint;
  free  text;
begin
  if not pg_try_advisory_lock({lock.ring}) then
    return;
  end if;
  begin
    high := coalesce(pg_sequence_last_value('penstock.position'), 0);
    if early or high >= pg_sequence_last_value('penstock.ring_until') then
      ring := {ring.text};
      free := left({ring.free(ring)}, 1);
      -- Always a full share: claims rely on it to know that a floor lies in the current segment.
      perform setval('penstock.ring_until', high + share),
        setval('penstock.ring_turned_at', (date_part('epoch', clock_timestamp()) * 1e6)::bigint);
      if free <> '' then
        perform setval('penstock.ring', (ring || free)::bigint);
      end if;
    end if;
  exception when query_canceled or others then
    perform pg_advisory_unlock({lock.ring});
    raise;
  end;
  perform pg_advisory_unlock({lock.ring});
end $$;
