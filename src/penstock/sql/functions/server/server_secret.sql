-- Returns the secret with which the servers of this database sign. The first server creates it. Later calls write
-- nothing, so that servers can also start on a read-only database. Locks: the new row. Scans one row.
create or replace function penstock._server_secret(proposed bytea) returns bytea
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if not exists (select from penstock.server_secret) then
    insert into penstock.server_secret (secret) values (proposed) on conflict do nothing;
  end if;
  return (select s.secret from penstock.server_secret s);
end $$;
