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
