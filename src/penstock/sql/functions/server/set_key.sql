-- Changes the grants of a key, or when it expires, all or none. The key is found by its id, or by its name if no key
-- has this id. Locks: the row of the key. Scans the keys, which are few.
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
