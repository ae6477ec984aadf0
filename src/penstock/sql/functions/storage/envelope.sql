-- Return the message in a row of leased_N or grouped. Locks: none. Indexes: none.
create or replace function penstock._envelope(l penstock.leased_0) returns penstock.envelope language sql immutable
  as $$
  select l.id, l.enqueued_at, l.expires_at, l.first_claimed_at, l.claimed_at, l.dead_at, l.queue_id, l.priority,
         l.attempt, l.max_attempts, l.body_slot, l.worker, l.key, l.group_key, l.headers, l.payload, l.payload_bytes,
         l.last_error
$$;

-- The same for a row of grouped.
create or replace function penstock._envelope(g penstock.grouped) returns penstock.envelope language sql immutable as $$
  select g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority,
         g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes,
         g.last_error
$$;
