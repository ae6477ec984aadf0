-- Streams that claim, and the number of messages that each holds. A stream that was not seen for long may have been
-- abandoned: see spark_release. Uses spark_slice_pkey.
create or replace view penstock.spark_consumers as
select c.name, c.generation, c.acked_tick, coalesce(sum(s.taken), 0)::bigint as held, c.begun_at, c.seen_at
from penstock.spark_consumer c left join penstock.spark_slice s on s.consumer = c.name and s.settled_xid is null
group by c.name;

-- Writes of Spark that are in their queues, and how often each was repeated. Uses spark_write_pkey.
create or replace view penstock.spark_writes as
select w.job, w.epoch, w.count, w.published_at, w.repeats, w.repeated_at from penstock.spark_write w where w.is_named;
