-- Notes how new the data in each layer of a lake is: the time at which the newest message or attempt in it ended.
-- pending are the rows of bronze that silver lacks. A null gold leaves gold as it was. Locks: the row of the lake.
-- Uses lake_pkey.
create or replace function penstock.lake_newest(name text, bronze timestamptz, silver timestamptz, gold timestamptz,
  pending bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.lake l set bronze_newest_at = bronze, silver_newest_at = silver,
    gold_newest_at = coalesce(gold, l.gold_newest_at), pending_rows = pending
  where l.name = lake_newest.name
$$;

-- The lakes, the one with the oldest gold first. The lag of a layer is the age of its newest data, or 0 if it holds
-- everything that has finished. lag_rows are the rows that bronze lacks, counted up to a limit. Locks: ACCESS SHARE.
-- Uses history_log_xid.
create or replace function penstock.lake_freshness(most integer default 10000)
returns table (name text, landed_at timestamptz, published_at timestamptz, lag_rows bigint,
  bronze_newest_at timestamptz, silver_newest_at timestamptz, gold_newest_at timestamptz,
  bronze_lag_seconds double precision, silver_lag_seconds double precision, gold_lag_seconds double precision)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
begin
  return query
  select l.name, l.landed_at, l.published_at, lag.rows, l.bronze_newest_at, l.silver_newest_at, l.gold_newest_at,
    case when lag.rows = 0 then 0 else penstock._age(coalesce(l.bronze_newest_at, l.registered_at), now_at) end,
    case when lag.rows = 0 and l.pending_rows = 0 then 0
      else penstock._age(coalesce(l.silver_newest_at, l.registered_at), now_at) end,
    case when lag.rows = 0 and l.pending_rows = 0 and coalesce(l.gold_newest_at >= l.silver_newest_at,
      l.silver_newest_at is null) then 0 else penstock._age(coalesce(l.gold_newest_at, l.registered_at), now_at) end
  from penstock.lake l cross join lateral penstock.lake_lag(l.name, most) lag
  order by 10 desc, 1;
end $$;
