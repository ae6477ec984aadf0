-- The line of an error that names its cause, up to 300 characters: of a Python traceback, the line with the exception,
-- which comes after the last list of frames; else the first line. Text may precede the traceback. The lines of a
-- group of exceptions begin with a bar. Locks: none. Indexes: none.
create or replace function penstock._error_line(error text) returns text language sql immutable parallel safe as $$
  select left(coalesce(
    case when strpos(error, 'Traceback (most recent call last):') > 0 then (
      select coalesce(found[1], found[2]) from regexp_match(error, '^(?:.*\n)?[ \t]*(?:'
        '\+ Exception Group Traceback \(most recent call last\):\n'
        '(?: *\|(?:  [^\n]*| ?)\n)* *\| ([^ \n][^\n]*)'
        '|Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n|\n)*([^ \t\n][^\n]*))') found) end,
    split_part(error, E'\n', 1)), 300)
$$;
