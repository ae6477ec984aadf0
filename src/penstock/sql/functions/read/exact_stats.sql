-- Counts the messages of every queue exactly, by reading all of them. For alerts and metrics, which must not depend on
-- an estimate; all_stats is for pages. STABLE, so that one snapshot shows every message once. Locks: ACCESS SHARE.
-- Reads the tables of messages once, without an index.
create or replace function penstock.exact_stats() returns setof penstock.queue_stats
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
  select (q.name, coalesce(sum(t.n) filter (where t.state = 'ready'), 0)::bigint,
    coalesce(sum(t.n) filter (where t.state = 'scheduled'), 0)::bigint,
    coalesce(sum(t.n) filter (where t.state = 'leased'), 0)::bigint,
    coalesce(sum(t.n) filter (where t.state = 'dead'), 0)::bigint,
    penstock._age(min(t.first), clock_timestamp()), false)::penstock.queue_stats
  from penstock.queue q left join penstock._sample(array[100, 100, 100, 100, 100], clock_timestamp()) t
    on t.queue_id = q.id
  group by q.id order by q.name
$$;
