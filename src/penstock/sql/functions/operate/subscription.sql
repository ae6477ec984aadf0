-- Subscriptions: create, change, drop, and count deliveries. Servers listen to penstock_subscriptions, and send
-- the messages. _find_subscription returns a subscription by name, or raises PS041. Locks: the row of the subscription
-- until commit. Uses subscription_pkey.
create or replace function penstock._find_subscription(name text) returns penstock.subscription language plpgsql as $$
#variable_conflict use_column
declare
  s penstock.subscription;
begin
  select * into s from penstock.subscription t where t.name = _find_subscription.name for no key update;
  if not found then
    perform penstock._fail('PS041', format('subscription %L does not exist', left(_find_subscription.name, 200)),
      jsonb_build_object('subscription', left(_find_subscription.name, 200)),
      'Create it with penstock.create_subscription.');
  end if;
  return s;
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

-- Creates a subscription of a queue. A queue has at most one. Locks: the new row. Uses subscription_pkey.
create or replace function penstock.create_subscription(
  name text, queue text, url text, settings jsonb default '{}', created_by text default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.subscription;
begin
  if create_subscription.name !~ '^[a-z0-9._-]{1,128}$' or create_subscription.name is null then
    perform penstock._fail_value('name', create_subscription.name, '1 to 128 lowercase letters, digits, -, _ and .');
  end if;
  perform penstock._check_internal(create_subscription.queue);
  perform penstock._queue_id(create_subscription.queue);
  s.name := create_subscription.name;
  s.queue := create_subscription.queue;
  s.concurrency := 10;
  s.timeout_seconds := 15;
  s.enabled := true;
  s.version := 0;
  s.delivered := 0;
  s.failed := 0;
  s.created_by := create_subscription.created_by;
  s.created_at := clock_timestamp();
  s := penstock._with_subscription_settings(s, settings || jsonb_build_object('url', create_subscription.url));
  insert into penstock.subscription select s.* on conflict do nothing;
  if not found then
    perform penstock._fail('PS042', format('subscription %L or a subscription of queue %L already exists',
      create_subscription.name, create_subscription.queue), jsonb_build_object('subscription',
      create_subscription.name, 'queue', create_subscription.queue), 'A queue has at most one subscription.');
  end if;
end $$;

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

-- Drops a subscription. The messages of its queue stay. Locks: the row of the subscription. Uses subscription_pkey.
create or replace function penstock.drop_subscription(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  s penstock.subscription := penstock._find_subscription(name);
begin
  delete from penstock.subscription t where t.name = s.name;
  perform pg_notify('penstock_subscriptions', '');
end $$;

-- Counts the deliveries of a server, and disables the subscription if its endpoint answered 410 Gone. A server that
-- works with older settings does not disable it. Locks: the row of the subscription. Uses subscription_pkey.
create or replace function penstock.note_deliveries(
  name text, version integer, delivered bigint, failed bigint, last_error text, disabled_reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  is_gone boolean;
begin
  update penstock.subscription s
  set delivered = s.delivered + note_deliveries.delivered, failed = s.failed + note_deliveries.failed,
      last_delivered_at = case when note_deliveries.delivered > 0 then clock_timestamp() else s.last_delivered_at end,
      last_error = coalesce(note_deliveries.last_error, s.last_error),
      last_error_at = case when note_deliveries.last_error is null then s.last_error_at else clock_timestamp() end,
      enabled = s.enabled and not (note_deliveries.disabled_reason is not null
        and s.version = note_deliveries.version),
      disabled_reason = case when s.version = note_deliveries.version
        then coalesce(note_deliveries.disabled_reason, s.disabled_reason) else s.disabled_reason end
  where s.name = note_deliveries.name returning not s.enabled into is_gone;
  if is_gone and note_deliveries.disabled_reason is not null then
    perform pg_notify('penstock_subscriptions', '');
  end if;
end $$;
