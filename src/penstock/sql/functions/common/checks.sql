-- Check values that callers pass, and raise PS004 for a value that is not allowed. _check_lease: 1 second to 12 hours.
-- Locks: none. Indexes: none.
create or replace function penstock._check_lease(lease_seconds integer) returns void language plpgsql as $$
begin
  if lease_seconds not between 1 and {limit.lease_seconds} then
    perform penstock._fail_value('lease_seconds', lease_seconds::text,
      'a whole number from 1 to {limit.lease_seconds}');
  end if;
end $$;

-- _check_delay: 0 to 100 years. Locks: none. Indexes: none.
create or replace function penstock._check_delay(delay interval) returns void language plpgsql as $$
begin
  if delay < interval '0' or delay > interval '100 years' then
    perform penstock._fail_value('delay', delay::text, '0 to 100 years');
  end if;
end $$;

-- _number_in: a number of a JSON object is within a range. Locks: none. Indexes: none.
create or replace function penstock._number_in(field text, value jsonb, low numeric, high numeric) returns void
language plpgsql immutable as $$
begin
  if jsonb_typeof(value) = 'number' and (value #>> '{}')::numeric between low and high then
    return;
  end if;
  perform penstock._fail_value(field, value #>> '{}', format('a number from %s to %s', low, high));
end $$;
