-- Spark streams that claim, and for how long each has not been seen.
select name, held, seen_at, extract(epoch from clock_timestamp() - seen_at)::double precision as unseen_seconds
from penstock.spark_consumers
order by name
