-- The wait for the first claim and the duration of the last attempt of messages that finished recently, by queue: the
-- 50th, 95th and 99th percentile in seconds, in a sample of the latest rows of history. No locks. Uses history_log_xid.
with latest as materialized (
  select queue, enqueued_at, first_claimed_at, last_claimed_at, finished_at
    from penstock.history_feed
   order by xid desc, id desc
   limit %(sample)s::integer
)
select queue,
       percentile_cont(array[0.5, 0.95, 0.99])
         within group (order by greatest(0, date_part('epoch', first_claimed_at - enqueued_at))) as waited,
       percentile_cont(array[0.5, 0.95, 0.99])
         within group (order by greatest(0, date_part('epoch', finished_at - last_claimed_at))) as worked
  from latest
 where first_claimed_at is not null
   and finished_at > clock_timestamp() - make_interval(secs => %(seconds)s::double precision)
 group by queue
