-- Records which version of the lake is in the gold tables. Locks: the row of the lake. Uses lake_pkey.
create or replace function penstock.lake_published(name text, version bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from penstock.queue_minute where minute < now() - interval '35 days';
  delete from penstock.queue_quarter where quarter < now() - interval '35 days';
  delete from penstock.worker_minute where minute < now() - interval '35 days';
  update penstock.lake l set published_version = version, published_at = clock_timestamp()
    where l.name = lake_published.name
$$;
