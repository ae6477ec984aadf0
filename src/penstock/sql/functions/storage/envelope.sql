-- Return the message in a row of leased_N or grouped. Locks: none. Indexes: none.
create or replace function penstock._envelope(l penstock.leased_0) returns penstock.envelope language sql immutable
  as $$
  select {envelope.columns(l)}
$$;

-- The same for a row of grouped.
create or replace function penstock._envelope(g penstock.grouped) returns penstock.envelope language sql immutable as $$
  select {envelope.columns(g)}
$$;
