-- Returns a subscription by name, or raises PS041. Locks: the row of the subscription until commit. Uses
-- subscription_pkey.
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
