-- Gold by queue, over some days: the busiest first. Uses the index on the day.
select queue,
       {sums}
  from penstock.gold_queue_day
 where day >= %(since)s::timestamptz::date and day <= %(until)s::timestamptz::date
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by 1
 order by sum(finished) desc, queue
 limit 50
