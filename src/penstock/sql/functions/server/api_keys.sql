-- API keys of the HTTP server. The caller hashes the secret, so the database never gets it. create_key creates a key,
-- and refuses the name of another valid key. Locks: an advisory lock on the name until commit. Uses api_key_name.
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

-- Changes the grants of a key, or when it expires, all or none. The key is found by its id, or by its name if no key has
-- this id. Locks: the row of the key. Scans the keys, which are few.
create or replace function penstock.set_key(key text, settings jsonb)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  k     penstock.api_key;
  name  text;
  value jsonb;
begin
  select * into k from penstock.api_key t where set_key.key in (t.name, t.id) and t.revoked_at is null
  order by t.id = set_key.key desc limit 1 for no key update;
  if not found then
    perform penstock._fail_unknown_key(set_key.key);
  end if;
  for name, value in select * from jsonb_each(coalesce(set_key.settings, '{}')) loop
    case
      when name = 'grants' and jsonb_typeof(value) = 'array' and jsonb_array_length(value) between 1 and 100 then
        k.grants := array(select jsonb_array_elements_text(value));
      when name = 'grants' then
        perform penstock._fail_value('grants', value #>> '{}', 'a list of 1 to 100 scopes');
      when name = 'expires_at' then
        k.expires_at := (value #>> '{}')::timestamptz;
      else
        perform penstock._fail_value('settings', name, 'grants, expires_at');
    end case;
  end loop;
  update penstock.api_key t set grants = k.grants, expires_at = k.expires_at where t.id = k.id;
  notify penstock_keys;
end $$;

-- Raises PS021. Locks: none. Indexes: none.
create or replace function penstock._fail_unknown_key(key text) returns void language plpgsql as $$
begin
  perform penstock._fail('PS021', format('there is no valid API key %L', left(_fail_unknown_key.key, 200)),
    jsonb_build_object('key', left(_fail_unknown_key.key, 200)), 'The view penstock.api_keys lists all keys.');
end $$;

-- Revokes a valid key, by its name or id. Locks: the row of the key. Scans the keys, which are few.
create or replace function penstock.revoke_key(key text, revoked_by text default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update penstock.api_key k set revoked_at = clock_timestamp(), revoked_by = revoke_key.revoked_by
  where revoke_key.key in (k.name, k.id) and k.revoked_at is null;
  if not found then
    perform penstock._fail_unknown_key(revoke_key.key);
  end if;
  notify penstock_keys;
end $$;

-- Notes that keys are in use. A server calls it a few times a minute with the keys that it has seen since. A key that
-- was noted within five minutes is skipped, so any number of servers write a row once in five minutes. Locks: the rows
-- of the keys that it writes, in the order of their ids. Uses api_key_use_pkey.
create or replace function penstock.note_key_use(ids text[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.api_key_use as u (key_id, used_at)
  select k.id, clock_timestamp() from penstock.api_key k
  where k.id = any (note_key_use.ids) and not exists (
    select from penstock.api_key_use n where n.key_id = k.id and n.used_at > clock_timestamp() - interval '5 minutes')
  order by k.id
  on conflict (key_id) do update set used_at = excluded.used_at;
$$;

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
