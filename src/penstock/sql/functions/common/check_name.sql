-- Checks the name of a queue. Names that end in .dlq are reserved for dead letters.
-- Locks: none. Indexes: none.
create or replace function penstock._check_name(queue text) returns void language plpgsql as $$
declare
  is_reserved constant boolean := queue ~ '\.dlq$';
begin
  if is_reserved or queue !~ '^[a-z0-9._-]{1,128}$' or queue is null then
    perform penstock._fail('PS003', case when is_reserved
      then format('queue name %L is reserved: names that end in .dlq are for dead letters', left(queue, 200))
      else format('%L is not a valid queue name', left(queue, 200)) end,
      jsonb_build_object('queue', left(queue, 200)), case when is_reserved
      then 'Use a name that does not end in .dlq. Each queue has its dead letters in <queue>.dlq.'
      else 'Use 1 to 128 lowercase letters, digits, -, _ and .' end);
  end if;
end $$;
