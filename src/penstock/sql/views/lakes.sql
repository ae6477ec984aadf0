-- The lakes that history lands in, and how far behind each is.
create or replace view penstock.lakes as
select l.name, l.path, l.format, l.registered_at, l.landed_at, l.landed_rows, l.landed_bytes, l.published_version,
       l.published_at, l.verified_at, lag.rows as lag_rows,
       coalesce(extract(epoch from clock_timestamp() - lag.oldest_at), 0)::double precision as lag_seconds
from penstock.lake l cross join lateral penstock.lake_lag(l.name) lag;

-- Gold, as the lake published it last.
create or replace view penstock.gold_queue_minute as select * from penstock.queue_minute;
create or replace view penstock.gold_queue_quarter as select * from penstock.queue_quarter;
create or replace view penstock.gold_queue_day as select * from penstock.queue_day;
create or replace view penstock.gold_error_day as select * from penstock.error_day;
create or replace view penstock.gold_worker_minute as select * from penstock.worker_minute;
