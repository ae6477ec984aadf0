-- Counts the waiting messages that have expired and were not removed yet, up to `most`. Locks: ACCESS SHARE. Uses
-- scheduled_expiry, grouped_expiry and lane_N_expiry.
create or replace function penstock.overdue(most integer default 1000) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
  select count(*) from (
    select from penstock.scheduled t where t.expires_at <= now()
    union all select from penstock.grouped t where t.expires_at <= now()
    --: for each segment
    union all select from penstock.ready_{slot} t where t.expires_at <= now()
    --: end
    limit most) over_time
$$;
