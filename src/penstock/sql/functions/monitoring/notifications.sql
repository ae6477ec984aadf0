-- lead_notifications takes or renews the lease of the one server that sends notifications. Returns false while another
-- server has it. Locks: the row of the lease. Uses notifier_pkey.
create or replace function penstock.lead_notifications(holder text, seconds integer) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  insert into penstock.notifier as n (holder, lease_until)
  values (lead_notifications.holder, clock_timestamp() + make_interval(secs => lead_notifications.seconds))
  on conflict (only_row) do update set holder = excluded.holder, lease_until = excluded.lease_until
  where n.holder = excluded.holder or n.lease_until < clock_timestamp();
  return found;
end $$;

-- release_notifications ends the lease of a holder. Locks: the row of the lease. Uses notifier_pkey.
create or replace function penstock.release_notifications(holder text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from penstock.notifier n where n.holder = release_notifications.holder;
end $$;

-- announcements returns the findings that were sent to a destination and are not over. Locks: ACCESS SHARE. Uses
-- announcement_pkey.
create or replace function penstock.announcements(destination text)
returns table (finding text, kind text, severity text, title text, since timestamptz, missing_since timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select a.finding, a.kind, a.severity, a.title, a.since, a.missing_since from penstock.announcement a
  where a.destination = announcements.destination order by a.since, a.finding
$$;

-- store_announcements replaces the findings of a destination. findings: an array of objects with the columns of
-- penstock.announcement. Unchanged rows stay as they are. Locks: the changed rows. Uses announcement_pkey.
create or replace function penstock.store_announcements(destination text, findings jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  wanted penstock.announcement[];
begin
  select coalesce(array_agg(f), '{}') into wanted from jsonb_populate_recordset(null::penstock.announcement,
    store_announcements.findings) f;
  delete from penstock.announcement a
  where a.destination = store_announcements.destination and a.finding not in (select w.finding from unnest(wanted) w);
  insert into penstock.announcement as a (destination, finding, kind, severity, title, since, missing_since)
  select store_announcements.destination, w.finding, w.kind, w.severity, w.title, w.since, w.missing_since
  from unnest(wanted) w
  on conflict (destination, finding) do update
  set kind = excluded.kind, severity = excluded.severity, title = excluded.title, since = excluded.since,
    missing_since = excluded.missing_since
  where (a.severity, a.title, a.since, a.missing_since)
    is distinct from (excluded.severity, excluded.title, excluded.since, excluded.missing_since);
end $$;
