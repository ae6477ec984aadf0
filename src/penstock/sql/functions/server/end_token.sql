-- Ends a session or a sign-in link of the HTTP server. True the first time. Locks: the new row. Uses
-- ended_token_pkey.
create or replace function penstock.end_token(id text) returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  insert into penstock.ended_token (id) values (end_token.id) on conflict do nothing;
  return found;
end $$;
