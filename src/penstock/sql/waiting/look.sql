-- Claims from several queues at once: what an idle worker asks about once in a while. A queue that does not exist has
-- known = false. The columns of a lease are those of claim.sql.
select u.queue, q.name is not null as known,
       l.id, l.token, l.attempt, l.max_attempts,
       date_part('epoch', l.lease_until - clock_timestamp()) as remaining,
       date_part('epoch', clock_timestamp() - l.enqueued_at) as waited,
       l.payload::text, l.payload_bytes, l.headers::text, l.key, l.priority, l.group_key, l.enqueued_at, l.lease_until, l.expires_at,
       l.last_error, l.original_queue
  from unnest(%(queues)s::text[], %(counts)s::integer[], %(lease_seconds)s::integer[]) u (queue, count, lease_seconds)
  left join penstock.queues q on q.name = regexp_replace(u.queue, '\.dlq$', '')
  -- Only for a queue that exists: with the condition beside the function, it would be called first and asked later.
  left join lateral (select c.* from (select u.queue where q.name is not null offset 0) known
                     cross join lateral penstock.claim(known.queue, u.count, u.lease_seconds, %(worker)s::text) c) l on true
