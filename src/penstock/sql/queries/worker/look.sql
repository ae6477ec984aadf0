-- Claims from several queues at once, as an idle worker does from time to time. A queue that does not exist has
-- known = false. The columns of a lease are in penstock/model/lease_columns.py.
select u.queue, q.name is not null as known,
       {lease},
       date_part('epoch', l.lease_until - clock_timestamp()) as remaining,
       date_part('epoch', clock_timestamp() - l.enqueued_at) as waited
  from unnest(%(queues)s::text[], %(counts)s::integer[], %(lease_seconds)s::integer[]) u (queue, count, lease_seconds)
  left join penstock.queues q on q.name = regexp_replace(u.queue, '\.dlq$', '')
  -- Only for a queue that exists: with the condition next to the function, PostgreSQL would call the function first.
  left join lateral (select c.* from (select u.queue where q.name is not null offset 0) known
                     cross join lateral penstock.claim(known.queue, u.count, u.lease_seconds, %(worker)s::text) c) l
                       on true
