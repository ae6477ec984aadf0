-- Returns the version of the schema: the number of the last migration. Locks: none. Uses migration_pkey.
create or replace function penstock.schema_version() returns integer language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(version), 0)::integer from penstock.migration
$$;

-- Returns the version of the oldest clients that work with this schema. Clients of a lower version must be upgraded.
-- Locks: none. Uses migration_pkey.
create or replace function penstock.oldest_client() returns integer language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(coalesce(clients_from, version)), 0)::integer from penstock.migration
$$;
