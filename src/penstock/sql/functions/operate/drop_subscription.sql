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
