-- Returns the history that a lake lacks: the number of rows, counted up to a limit, and the time of the oldest. Locks:
-- ACCESS SHARE. Uses history_log_xid.
create or replace function penstock.lake_lag(name text, most integer default 100000)
returns table (rows bigint, oldest_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  seen pg_snapshot := (select penstock._seen(l, l.history_snapshot) from penstock.lake l where l.name = lake_lag.name);
begin
  return query select count(*), min(finished_at) from (
    (select finished_at from penstock.history_log where xid >= pg_snapshot_xmax(seen) order by xid, id limit most)
    union all
    (select finished_at from penstock.history_log where xid = any (array(select pg_snapshot_xip(seen)))
      limit most)) missing;
end $$;

-- Returns the lakes for a page, the one with the largest lag first. Rows are counted up to 10,000. Locks: ACCESS SHARE.
-- Uses history_log_xid.
create or replace function penstock.lake_glance()
returns table (name text, landed_at timestamptz, published_at timestamptz, lag_rows bigint,
  lag_seconds double precision)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query
  select l.name, l.landed_at, l.published_at, lag.rows,
    coalesce(extract(epoch from clock_timestamp() - lag.oldest_at), 0)::double precision
  from penstock.lake l cross join lateral penstock.lake_lag(l.name, 10000) lag
  order by 5 desc, 1;
end $$;
