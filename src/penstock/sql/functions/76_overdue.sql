-- How many waiting messages have outlived their time and were not swept yet, counted up to `most`. By the expiry indexes.
select penstock._unroll($unroll$
create or replace function penstock.overdue(most integer default 1000) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
  select count(*) from (
    select from penstock.scheduled t where t.expires_at <= now()
    union all select from penstock.grouped t where t.expires_at <= now()
    --[
    union all select from penstock.ready_{slot} t where t.expires_at <= now()
    --]
    limit most) over_time
$$;
$unroll$);
