-- Creates a subscription of a queue. A queue has at most one. Servers listen to penstock_subscriptions, and send the
-- messages. Locks: the new row. Uses subscription_pkey.
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
