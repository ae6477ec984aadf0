-- Records the progress of a lake, and the size of the last batch. Locks: the row of the lake. Uses lake_pkey.
create or replace function penstock.lake_landed(name text, history pg_snapshot, attempts pg_snapshot, rows bigint,
  bytes bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.lake l set database = penstock._database(), history_snapshot = history, attempts_snapshot = attempts,
    landed_at = clock_timestamp(), landed_rows = l.landed_rows + rows, landed_bytes = l.landed_bytes + bytes
  where l.name = lake_landed.name
$$;
