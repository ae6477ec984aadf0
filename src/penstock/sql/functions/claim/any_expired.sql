-- Has a lease expired in this segment, of one queue or of any? A table without blocks needs no statement, and so no
-- plan.
-- Locks: ACCESS SHARE. Uses leased_N_until and grant_N_until.
--: for each segment
create or replace function penstock._any_expired_{slot}(only_queue integer, after timestamptz, until timestamptz,
  grants_until timestamptz)
returns boolean language plpgsql as $$
#variable_conflict use_column
begin
  if pg_relation_size('penstock.leased_{slot}', 'main') > bigint '0' then
    if exists (select from penstock.leased_{slot} l where l.lease_until > after and l.lease_until <= until
               and (only_queue is null or l.queue_id = only_queue)) then
      return true;
    end if;
  end if;
  if pg_relation_size('penstock.grant_{slot}', 'main') > bigint '0' then
    return exists (select from penstock.grant_{slot} g where g.lease_until > after and g.lease_until <= grants_until
                   and (only_queue is null or g.queue_id = only_queue));
  end if;
  return false;
end $$;
--: end

-- The same for all segments that may hold rows.
create or replace function penstock._any_expired(only_queue integer, after timestamptz, until timestamptz,
  grants_until timestamptz)
returns boolean language plpgsql as $$
declare
  slot integer;
begin
  foreach slot in array penstock._slots_by_age() loop
    -- The overflow segment is empty most of the time.
    continue when slot = 0 and pg_relation_size('penstock.leased_0', 'main')
      + pg_relation_size('penstock.grant_0', 'main') = bigint '0';
    --: branch on slot
    if penstock._any_expired_{slot}(only_queue, after, until, grants_until) then
      return true;
    end if;
    --: end
  end loop;
  return false;
end $$;
