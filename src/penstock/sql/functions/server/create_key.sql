-- Creates an API key of the HTTP server. The caller hashes the secret, so the database never gets it. Refuses the name
-- of another valid key. Locks: an advisory lock on the name until commit. Uses api_key_name.
create or replace function penstock.create_key(id text, name text, secret_hash text, grants text[],
                                               created_by text default null, expires_at timestamptz default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if coalesce(create_key.name, '') !~ '^[A-Za-z0-9._@-]{1,64}$' then
    perform penstock._fail_value('name', create_key.name, '1 to 64 letters, digits and . _ @ -');
  end if;
  -- If two callers create the same name, the second waits here and then finds the row of the first.
  perform pg_advisory_xact_lock(hashtextextended('penstock key ' || create_key.name, 0));
  if exists (select from penstock.api_key k where k.name = create_key.name and k.revoked_at is null) then
    perform penstock._fail('PS020', format('API key %L already exists', create_key.name),
      jsonb_build_object('name', create_key.name), 'Choose another name, or revoke the existing key.');
  end if;
  insert into penstock.api_key (id, name, secret_hash, grants, created_by, expires_at)
  values (create_key.id, create_key.name, create_key.secret_hash, create_key.grants, create_key.created_by,
    create_key.expires_at);
  notify penstock_keys;
end $$;
