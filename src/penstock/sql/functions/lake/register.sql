-- State of lakes, written by `penstock lake`. Lakes are few, their rows change once for each batch, and messages never
-- wait for them.
--
-- register_lake: from now on PostgreSQL keeps history until it has landed in the lake. Locks: the row of the lake. Uses
-- lake_pkey.
create or replace function penstock.register_lake(name text, path text, format text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.lake (name, path, format) values (register_lake.name, register_lake.path, register_lake.format)
  on conflict (name) do update set path = excluded.path, format = excluded.format
  where (lake.path, lake.format) is distinct from (excluded.path, excluded.format)
$$;
