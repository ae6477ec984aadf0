-- As claim, for a caller that has room for max_bytes: it stops once the messages have that size as text, and leaves the
-- others where they are. It returns one message at least, if there is one. Messages are claimed in portions. The first
-- portion fits even if every message has the largest size that the queue takes. If its messages are small, the next
-- ones are up to four times as large, so the result has at most five times max_bytes. A claim of 1000 small messages
-- takes 6 ms in portions of 250, and 4.4 ms at once.
-- Locks and indexes: as claim.
create or replace function penstock.claim_within(queue text, count integer, lease_seconds integer, worker text,
  max_bytes bigint)
returns setof penstock.lease language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  -- Headers have up to 16 kB, and the error of a message up to 8 kB.
  fits    constant bigint := greatest(1, claim_within.max_bytes / ({payload.beside_bytes}
    + coalesce((select q.max_payload_bytes from penstock.queues q
    where q.name = regexp_replace(claim_within.queue, '\.dlq$', '')), {payload.default_bytes})));
  portion integer := least(claim_within.count, fits);
  bytes   bigint := 0;
  total   integer := 0;
  found   integer;
  m       penstock.lease;
begin
  -- claim refuses a count out of range.
  if portion is not distinct from claim_within.count or claim_within.count > {limit.messages} then
    return query select * from penstock.claim(claim_within.queue, claim_within.count, claim_within.lease_seconds,
      claim_within.worker);
    return;
  end if;
  loop
    found := 0;
    for m in select * from penstock.claim(claim_within.queue, portion, claim_within.lease_seconds, claim_within.worker)
      loop
      bytes := bytes + coalesce(octet_length(m.payload::text), octet_length(m.payload_bytes) * 4 / 3)
        + coalesce(octet_length(m.headers::text), 0) + coalesce(octet_length(m.last_error), 0);
      found := found + 1;
      return next m;
    end loop;
    total := total + found;
    exit when found < portion or total >= claim_within.count or bytes >= claim_within.max_bytes;
    portion := least(claim_within.count - total, fits * 4,
      greatest(1, (claim_within.max_bytes - bytes) * total / greatest(bytes, 1)));
  end loop;
end $$;
