-- The time up to which gold is published. Uses the indexes on the minute and on the day.
select (select max(minute) from penstock.gold_queue_minute),
       (select max(day)::timestamp at time zone 'UTC' from penstock.gold_queue_day)
