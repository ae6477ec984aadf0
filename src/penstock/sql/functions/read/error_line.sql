-- The line of an error that names its cause, up to 300 characters: of a Python traceback, the line with the exception,
-- which comes after the last list of frames; else the first line. Text may precede the traceback. The lines of a
-- group of exceptions begin with a bar. One pattern for all of it takes 59 ms for a traceback of 9 kB; this takes 0.7.
-- Locks: none. Indexes: none.
create or replace function penstock._error_line(error text) returns text language sql immutable parallel safe as $$
  select left(coalesce(
    case when strpos(error, 'Traceback (most recent call last):') > 0 then (
      select case
        when length(part.of_group) < length(part.of_one)
          then substring(E'\n' || part.of_group from E'\n *\\| ([^ \n][^\n]*)')
        when length(part.of_one) <= length(error)
          then substring(E'\n' || part.of_one from E'\n([^ \t\n][^\n]*)') end
      from (select
        split_part(E'\n' || error, E'\nTraceback (most recent call last):\n', -1) as of_one,
        split_part(E'\n' || error, E' + Exception Group Traceback (most recent call last):\n', -1) as of_group) part
    ) end, split_part(error, E'\n', 1)), 300)
$$;
