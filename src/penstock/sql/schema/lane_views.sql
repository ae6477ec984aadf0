-- Views of the two kinds of messages in a lane: ready_N, and held_N for messages that are leased in place, with the
-- columns of leased_N. place is the ctid of the row. They call no Penstock function, so that a reader of a view made of
-- them needs no right to call one. They belong to the schema and are not replaced with the functions: claims use them,
-- and would wait for the whole upgrade.
--: for each segment
create view penstock.ready_{slot} as
select position, {envelope} from penstock.lane_{slot} where hold = 0;

create view penstock.held_{slot} as
select {token.in_place_from({hold.mark(l.hold)})} + {slot} + {token.of_place(l.ctid)} as token,
  {hold.until(l.hold)} as lease_until,
  l.position, l.key is not null as watched, l.id, l.enqueued_at, l.expires_at,
  coalesce(l.first_claimed_at, (select g.claimed_at from penstock.grant_{slot} g
                                where g.lease_until = {hold.until(l.hold)} and g.hold = l.hold
                                  limit 1)) as first_claimed_at,
  (select g.claimed_at from penstock.grant_{slot} g
   where g.lease_until = {hold.until(l.hold)} and g.hold = l.hold limit 1) as claimed_at,
  l.dead_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint as attempt, l.max_attempts, l.body_slot,
  (select g.worker from penstock.grant_{slot} g
   where g.lease_until = {hold.until(l.hold)} and g.hold = l.hold limit 1) as worker,
  l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error, l.ctid as place, l.hold
from penstock.lane_{slot} l where l.hold <> 0;
--: end
