-- Up to when gold is published. By the index on the minute, and that on the day.
select (select max(minute) from penstock.gold_queue_minute),
       (select max(day)::timestamp at time zone 'UTC' from penstock.gold_queue_day)
