-- Claims for several polls of waiting consumers at once, about max_bytes for each. A poll whose queue does not exist
-- has known = false.
select u.poll, q.name is not null as known,
       {lease}
  from unnest(%(queues)s::text[], %(counts)s::integer[], %(lease_seconds)s::integer[], %(workers)s::text[])
       with ordinality u (queue, count, lease_seconds, worker, poll)
  left join penstock.queues q on q.name = regexp_replace(u.queue, '\.dlq$', '')
  -- Only for a queue that exists: with the condition next to the function, PostgreSQL would call the function first.
  left join lateral (select c.* from (select u.queue where q.name is not null offset 0) known
                     cross join lateral penstock.claim_within(known.queue, u.count, u.lease_seconds, u.worker,
                                                              %(max_bytes)s::bigint) c) l on true
