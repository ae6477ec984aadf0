-- The lakes, and how far behind each is, as a page asks it: rows are counted up to 10,000. The one that is furthest behind first.
create or replace function penstock.lake_glance()
returns table (name text, landed_at timestamptz, published_at timestamptz, lag_rows bigint, lag_seconds double precision)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query
  select l.name, l.landed_at, l.published_at, lag.rows, coalesce(extract(epoch from clock_timestamp() - lag.oldest_at), 0)::double precision
  from penstock.lake l cross join lateral penstock.lake_lag(l.name, 10000) lag
  order by 5 desc, 1;
end $$;
