-- _database distinguishes this database from a copy of it, which has the same rows but other transaction ids.
-- Locks: none. Indexes: none.
create or replace function penstock._database() returns text language sql stable as $$
  select system_identifier || '/' || (select oid from pg_database where datname = current_database())
    from pg_control_system()
$$;

-- Returns the snapshot that a lake has seen, or null if it saw another database, or one that was restored since. Locks:
-- none. Indexes: none.
create or replace function penstock._seen(l penstock.lake, seen pg_snapshot) returns pg_snapshot language sql stable
  as $$
  select case when l.database = penstock._database()
    and pg_snapshot_xmax(seen) <= pg_snapshot_xmax(pg_current_snapshot()) then seen else '1:1:' end
$$;
