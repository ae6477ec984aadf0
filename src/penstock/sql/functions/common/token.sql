-- Functions on tokens and holds, whose bits layout/token.sql defines. PostgreSQL inlines them at each call.
-- _hold returns the hold of a new claim. Locks: none. Indexes: none.
create or replace function penstock._hold(until timestamptz, logged boolean) returns bigint language sql volatile as $$
  select {hold.of(until, logged)}
$$;

-- Returns the end of a lease in place.
create or replace function penstock._hold_until(hold bigint) returns timestamptz language sql immutable as $$
  select {hold.until(hold)}
$$;

-- Returns the limit for a moment: a message with a greater hold is leased beyond that moment.
create or replace function penstock._hold_at(moment timestamptz) returns bigint language sql stable as $$
  select {hold.at(moment)}
$$;

-- Returns the bits that a hold and a token share: 16 bits of the time, and whether the queue keeps history.
create or replace function penstock._hold_mark(hold bigint) returns integer language sql immutable as $$
  select {hold.mark(hold)}
$$;

-- Returns the part that all tokens of a claim share.
create or replace function penstock._held_from(mark integer) returns bigint language sql immutable as $$
  select {token.in_place_from(mark)}
$$;

-- Returns the part of a token that contains the location of the message.
create or replace function penstock._held_at(place tid) returns bigint language sql immutable as $$
  select {token.of_place(place)}
$$;

-- Returns the token of a message that is leased in place.
create or replace function penstock._held_token(slot integer, mark integer, place tid) returns bigint
language sql immutable as $$
  select penstock._held_from(mark) + slot + penstock._held_at(place)
$$;

-- Returns the location (ctid) of the message of a token. Locks: none. Indexes: none.
create or replace function penstock._place(token bigint) returns tid language sql stable as $$
  select {token.place(token)}
$$;

-- Returns the mark of a token, to compare it with the mark of a hold.
create or replace function penstock._held_mark(token bigint) returns integer language sql immutable as $$
  select {token.mark(token)}
$$;

-- Returns the number of a new claim. penstock.claim contains the same expression, because looking up and inlining a
-- function costs a new session 0.2 ms.
create or replace function penstock._lease_number() returns bigint language sql as $$
  select {token.new_number}
$$;
