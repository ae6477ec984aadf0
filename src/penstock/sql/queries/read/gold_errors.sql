-- Gold errors over some days, by kind: the most frequent first. Uses the index on the day.
select queue, error_kind, (array_agg(error order by last_at desc))[1], sum(retries)::bigint, sum(dead)::bigint,
       min(first_at), max(last_at)
  from penstock.gold_error_day
 where day >= %(since)s::timestamptz::date and day <= %(until)s::timestamptz::date
   and (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
 group by queue, error_kind
 order by sum(retries) + sum(dead) desc
 limit 50
