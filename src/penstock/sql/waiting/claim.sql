-- Claims from one queue. remaining: for how long the lease holds, so that nobody has to trust this machine's clock;
-- waited: since when the message could have been claimed first.
select l.id, l.token, l.attempt, l.max_attempts,
       date_part('epoch', l.lease_until - clock_timestamp()) as remaining,
       date_part('epoch', clock_timestamp() - l.enqueued_at) as waited,
       l.payload::text, l.payload_bytes, l.headers::text, l.key, l.priority, l.group_key, l.enqueued_at, l.lease_until, l.expires_at,
       l.last_error, l.original_queue
  from penstock.claim(%(queue)s::text, %(count)s::integer, %(lease_seconds)s::integer, %(worker)s::text) l
