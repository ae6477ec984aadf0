-- How a message is held where it is, in one number, which is all that a claim changes: the end of the lease in
-- microseconds since 1970 (52 bits, until 2112), 10 bits of chance that tell claims of the same moment apart, and 1 if the
-- queue keeps history. The rest is in the claim's grant.
create or replace function penstock._hold(until timestamptz, logged boolean) returns bigint language sql volatile as $$
  select (date_part('epoch', until) * 1e6)::bigint << 11 | ((random() * 1023)::integer << 1) | logged::integer
$$;

create or replace function penstock._hold_until(hold bigint) returns timestamptz language sql immutable as $$
  select to_timestamp((hold >> 11) / 1e6::double precision)
$$;

-- What has a higher one is held beyond that moment.
create or replace function penstock._hold_at(moment timestamptz) returns bigint language sql stable as $$
  select (date_part('epoch', moment) * 1e6)::bigint << 11 | 2047
$$;

-- What tokens say of it: 16 bits of the time, and that of history.
create or replace function penstock._hold_mark(hold bigint) returns integer language sql immutable as $$
  select (hold >> 10 & 131070 | (hold & 1))::integer
$$;

-- A message that was claimed where it is has a token that says where: bit 62 is set, and not bit 61; then 16 bits of when its lease ends, the
-- block (24 bits) and the line in it (16), 1 if the queue keeps history, and the segment (4). So whoever settles it needs no
-- index. The time tells two leases of one message in one place apart, and the message's id everything else.
-- First what is the same in all tokens of a claim, then what is not.
create or replace function penstock._held_from(mark integer) returns bigint language sql immutable as $$
  select 4611686018427387904 + ((mark >> 1)::bigint << 45) + ((mark & 1) << 4)
$$;

create or replace function penstock._held_at(place tid) returns bigint language sql immutable as $$
  select ('x' || encode(tidsend(place), 'hex'))::bit(48)::bigint << 5
$$;

create or replace function penstock._held_token(slot integer, mark integer, place tid) returns bigint language sql immutable as $$
  select penstock._held_from(mark) + slot + penstock._held_at(place)
$$;

create or replace function penstock._place(token bigint) returns tid language sql stable as $$
  select format('(%s,%s)', token >> 21 & 16777215, token >> 5 & 65535)::tid
$$;

create or replace function penstock._held_mark(token bigint) returns integer language sql immutable as $$
  select ((token >> 45 & 65535) * 2 + (token >> 4 & 1))::integer
$$;

-- The two kinds of messages in a lane: ready, and held by a claim; the latter as they would be in leased_N. place is where
-- one is, as long as nobody changes it.
do $views$
declare
  columns text := (select string_agg(a.attname, ', ' order by a.attnum) from pg_attribute a
                   where a.attrelid = 'penstock.envelope'::regclass and a.attnum > 0 and not a.attisdropped);
  -- As _hold_until says it, which who reads a view need not be allowed to call.
  until constant text := 'to_timestamp((l.hold >> 11) / 1e6::double precision)';
begin
  for slot in 0..8 loop
    execute format('create or replace view penstock.ready_%1$s as select position, %2$s from penstock.lane_%1$s where hold = 0', slot, columns);
    execute format('create or replace view penstock.held_%1$s as
      select penstock._held_token(%1$s, penstock._hold_mark(l.hold), l.ctid) as token, %2$s as lease_until, l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
        coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_%1$s g where g.lease_until = %2$s and g.hold = l.hold limit 1)) as first_claimed_at,
        (select g.claimed_at from penstock.grant_%1$s g where g.lease_until = %2$s and g.hold = l.hold limit 1) as claimed_at, l.dead_at, l.queue_id, l.priority,
        least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
        (select g.worker from penstock.grant_%1$s g where g.lease_until = %2$s and g.hold = l.hold limit 1) as worker,
        l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
      from penstock.lane_%1$s l where l.hold <> 0', slot, until);
  end loop;
end $views$;
