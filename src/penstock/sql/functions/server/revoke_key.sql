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
