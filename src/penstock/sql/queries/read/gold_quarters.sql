-- The same as gold_minutes.sql, from gold by quarter of an hour. Uses the primary key, or the index on the quarter.
select quarter,
       {sums}
  from penstock.gold_queue_quarter
 where quarter > %(since)s::timestamptz - interval '15 min' and quarter < %(until)s::timestamptz
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by 1
 order by 1
