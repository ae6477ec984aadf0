-- The line of an error that names its cause, up to 300 characters: of a Python traceback, the line with the exception,
-- which comes after the last list of frames; else the first line. Locks: none. Indexes: none.
create or replace function penstock._error_line(error text) returns text language sql immutable parallel safe as $$
  select left(coalesce(
    case when error ^@ 'Traceback (most recent call last):' then substring(error from
      '.*Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n|\n)*([^\n]+)') end, split_part(error, E'\n', 1)), 300)
$$;
