-- Gold by day: the finished messages and their durations. The 95th and 99th percentiles are those of the worst queue.
-- Uses the index on the day.
select day::timestamp at time zone 'UTC',
       {sums}
  from penstock.gold_queue_day
 where day >= %(since)s::timestamptz::date and day <= %(until)s::timestamptz::date
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by 1
 order by 1
