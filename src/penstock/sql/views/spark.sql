-- Streams that claim, and what each holds. One that was not seen for long may have been abandoned: see spark_release.
create or replace view penstock.spark_consumers as
select c.name, c.generation, c.acked_tick, coalesce(sum(s.taken), 0)::bigint as held, c.begun_at, c.seen_at
from penstock.spark_consumer c left join penstock.spark_slice s on s.consumer = c.name and s.settled_xid is null
group by c.name;
