-- The lakes that history lands in, and the lag of each of their layers. lag_seconds is the lag of gold. Scans the
-- lakes.
create or replace view penstock.lakes as
select l.name, l.path, l.format, l.registered_at, l.landed_at, l.landed_rows, l.landed_bytes, l.published_version,
       l.published_at, l.verified_at, f.lag_rows, f.gold_lag_seconds as lag_seconds, l.bronze_newest_at,
       l.silver_newest_at, l.gold_newest_at, f.bronze_lag_seconds, f.silver_lag_seconds, f.gold_lag_seconds
from penstock.lake l join penstock.lake_freshness(100000) f using (name);

-- Gold: the measures of each queue by minute, as the lake last published them. Uses queue_minute_pkey and
-- queue_minute_minute.
create or replace view penstock.gold_queue_minute as select * from penstock.queue_minute;

-- The measures of each queue by quarter of an hour. Uses queue_quarter_pkey and queue_quarter_quarter.
create or replace view penstock.gold_queue_quarter as select * from penstock.queue_quarter;

-- The measures of each queue by day. Uses queue_day_pkey and queue_day_day.
create or replace view penstock.gold_queue_day as select * from penstock.queue_day;

-- The errors of each queue by day. Uses error_day_pkey and error_day_day.
create or replace view penstock.gold_error_day as select * from penstock.error_day;

-- The measures of each worker by minute. Uses worker_minute_pkey and worker_minute_minute.
create or replace view penstock.gold_worker_minute as select * from penstock.worker_minute;
