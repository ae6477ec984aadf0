-- Returns the last transaction whose history may be missing because its slot was dropped. Locks: none. Scans
-- history_dropped, which has one row for each dropped slot.
create or replace function penstock.history_dropped_through() returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(through_xid::text::bigint), 0) from penstock.history_dropped
$$;
