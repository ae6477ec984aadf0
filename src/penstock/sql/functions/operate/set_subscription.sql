-- Changes settings of a subscription, all or none. Locks: the row of the subscription. Uses subscription_pkey.
create or replace function penstock.set_subscription(name text, settings jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.subscription := penstock._with_subscription_settings(penstock._find_subscription(name), settings);
begin
  update penstock.subscription t set url = s.url, secret = s.secret, concurrency = s.concurrency,
    timeout_seconds = s.timeout_seconds, enabled = s.enabled, disabled_reason = s.disabled_reason,
    version = s.version, updated_at = s.updated_at where t.name = s.name;
end $$;

-- Applies settings to a subscription: url, secret, concurrency, timeout_seconds and enabled. Raises an error for other
-- settings, and for values out of range. Locks: none. Indexes: none.
create or replace function penstock._with_subscription_settings(s penstock.subscription, settings jsonb)
returns penstock.subscription language plpgsql as $$
declare
  name  text;
  value jsonb;
begin
  for name, value in select * from jsonb_each(coalesce(settings, '{}')) loop
    case
      when name = 'url' and value #>> '{}' ~ '^https?://[!-~]+$' and length(value #>> '{}') <= 2048 then
        s.url := value #>> '{}';
      when name = 'url' then
        perform penstock._fail_value('url', value #>> '{}', 'an address that begins with https:// or http://');
      when name = 'secret' and jsonb_typeof(value) in ('string', 'null') then
        s.secret := value #>> '{}';
      when name = 'concurrency' then
        s.concurrency := penstock._subscription_number(name, value, 1, 1000);
      when name = 'timeout_seconds' then
        s.timeout_seconds := penstock._subscription_number(name, value, 1, 300);
      when name = 'enabled' and jsonb_typeof(value) = 'boolean' then
        s.enabled := value::boolean;
        s.disabled_reason := null;
      else
        perform penstock._fail_value('settings', name, 'url, secret, concurrency, timeout_seconds, enabled');
    end case;
  end loop;
  s.version := s.version + 1;
  s.updated_at := clock_timestamp();
  perform pg_notify('penstock_subscriptions', '');
  return s;
end $$;

-- Returns a whole number in a range, or raises PS004. Locks: none. Indexes: none.
create or replace function penstock._subscription_number(name text, value jsonb, low integer, high integer)
returns integer language plpgsql as $$
begin
  if jsonb_typeof(value) <> 'number' or value::numeric <> trunc(value::numeric)
    or value::numeric not between low and high then
    perform penstock._fail_value(name, value #>> '{}', format('a whole number from %s to %s', low, high));
  end if;
  return value::numeric::integer;
end $$;
