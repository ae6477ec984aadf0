-- State of lakes, written by `penstock lake`. Lakes are few, their rows change once for each batch, and messages never
-- wait for them. register_lake: from now on PostgreSQL keeps history until it has landed in the lake. Locks: the row of
-- the lake. Uses lake_pkey.
create or replace function penstock.register_lake(name text, path text, format text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.lake (name, path, format) values (register_lake.name, register_lake.path, register_lake.format)
  on conflict (name) do update set path = excluded.path, format = excluded.format
  where (lake.path, lake.format) is distinct from (excluded.path, excluded.format)
$$;

-- Removes a lake, so that history is no longer kept for it. False if there was none. Locks: the row of the lake. Uses
-- lake_pkey.
create or replace function penstock.release_lake(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  delete from penstock.lake l where l.name = release_lake.name;
  return found;
end $$;

-- Records the progress of a lake, and the size of the last batch. Locks: the row of the lake. Uses lake_pkey.
create or replace function penstock.lake_landed(name text, history pg_snapshot, attempts pg_snapshot, rows bigint,
  bytes bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.lake l set database = penstock._database(), history_snapshot = history, attempts_snapshot = attempts,
    landed_at = clock_timestamp(), landed_rows = l.landed_rows + rows, landed_bytes = l.landed_bytes + bytes
  where l.name = lake_landed.name
$$;

-- Records that the lake was verified now. Locks: the row of the lake. Uses lake_pkey.
create or replace function penstock.lake_verified(name text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.lake l set verified_at = clock_timestamp() where l.name = lake_verified.name
$$;

-- Records which version of the lake is in the gold tables. Locks: the row of the lake. Uses lake_pkey.
create or replace function penstock.lake_published(name text, version bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from penstock.queue_minute where minute < now() - interval '35 days';
  delete from penstock.queue_quarter where quarter < now() - interval '35 days';
  delete from penstock.worker_minute where minute < now() - interval '35 days';
  update penstock.lake l set published_version = version, published_at = clock_timestamp()
    where l.name = lake_published.name
$$;
