-- Removes a lake, so that history is no longer kept for it. False if there was none. Locks: the row of the lake. Uses
-- lake_pkey.
create or replace function penstock.release_lake(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  delete from penstock.lake l where l.name = release_lake.name;
  return found;
end $$;
