-- Tokens and holds: layout/token.sql draws their bits. PostgreSQL inlines these functions where they are called.
-- _hold makes the hold of a new claim. Locks: none. Indexes: none.
create or replace function penstock._hold(until timestamptz, logged boolean) returns bigint language sql volatile as $$
  select {hold.of(until, logged)}
$$;

-- When a lease in place ends.
create or replace function penstock._hold_until(hold bigint) returns timestamptz language sql immutable as $$
  select {hold.until(hold)}
$$;

-- A message whose hold is greater than this is leased beyond the moment.
create or replace function penstock._hold_at(moment timestamptz) returns bigint language sql stable as $$
  select {hold.at(moment)}
$$;

-- What a hold and a token have in common: 16 bits of the time, and whether the queue keeps history.
create or replace function penstock._hold_mark(hold bigint) returns integer language sql immutable as $$
  select {hold.mark(hold)}
$$;

-- The part that is the same in all tokens of a claim.
create or replace function penstock._held_from(mark integer) returns bigint language sql immutable as $$
  select {token.in_place_from(mark)}
$$;

-- The part of a token that says where the message is.
create or replace function penstock._held_at(place tid) returns bigint language sql immutable as $$
  select {token.of_place(place)}
$$;

-- The token of a message that is leased in place.
create or replace function penstock._held_token(slot integer, mark integer, place tid) returns bigint
language sql immutable as $$
  select penstock._held_from(mark) + slot + penstock._held_at(place)
$$;

-- Where the message of a token is: its ctid.
create or replace function penstock._place(token bigint) returns tid language sql stable as $$
  select {token.place(token)}
$$;

-- The mark of a token, to compare with that of a hold.
create or replace function penstock._held_mark(token bigint) returns integer language sql immutable as $$
  select {token.mark(token)}
$$;

-- The number of a new claim. penstock.claim has the same expression in its statement: to look up and expand a function
-- costs a new session 0.2 ms.
create or replace function penstock._lease_number() returns bigint language sql as $$
  select {token.new_number}
$$;
