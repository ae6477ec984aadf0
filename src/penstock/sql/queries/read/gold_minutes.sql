-- Gold of minutes, in steps: finished messages and their durations. A step's 95th and 99th percentiles are those of its
-- worst minute and queue. queue: one, or NULL for all in queues. Uses the primary key, or the index on the minute.
select date_bin(make_interval(secs => %(step)s::integer), minute, 'epoch'),
       {sums}
  from penstock.gold_queue_minute
 where minute >= %(since)s::timestamptz and minute < %(until)s::timestamptz
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by 1
 order by 1
