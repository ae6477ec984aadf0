-- Records that the lake was verified now. Locks: the row of the lake. Uses lake_pkey.
create or replace function penstock.lake_verified(name text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.lake l set verified_at = clock_timestamp() where l.name = lake_verified.name
$$;
