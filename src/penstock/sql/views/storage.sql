-- The segments of the ring: their state, their size on disk, and their dead rows according to PostgreSQL's statistics.
-- Reads registers and sizes, and no index.
create or replace view penstock.segments as
select s.slot, case when s.slot = 0 and strpos({ring.in_use(r.ring)}, '0') = 0 then 'overflow, empty' when s.slot = 0
  then 'overflow'
                    when s.slot = right(r.ring, 1)::integer then 'current'
                      when strpos({ring.closing(r.ring)}, s.slot::text) > 0 then 'closing'
                    when strpos({ring.in_use(r.ring)}, s.slot::text) > 0 then 'in use' else 'free' end as state,
       pg_total_relation_size(s.ready) as ready_bytes,
         pg_total_relation_size(s.leased) + pg_total_relation_size(s.granted) as leased_bytes,
         pg_total_relation_size(s.body) as body_bytes,
       pg_stat_get_dead_tuples(s.ready) + pg_stat_get_dead_tuples(s.leased) + pg_stat_get_dead_tuples(s.body)
         as dead_rows
from (values (-1, null::regclass, null::regclass, null::regclass, null::regclass)
  --: for each segment
  , ({slot}, 'penstock.lane_{slot}'::regclass, 'penstock.leased_{slot}'::regclass, 'penstock.body_{slot}'::regclass,
    'penstock.grant_{slot}'::regclass)
  --: end
) s (slot, ready, leased, body, granted), (select {ring.text} as ring) r
where s.slot >= 0;

-- The time slots of history in use: when each was started, and its size.
create or replace view penstock.history_slots as
select h.slot::integer, h.begun_at, lead(h.begun_at) over (order by h.begun_at) as ended_at,
       pg_total_relation_size(('penstock.history_log_' || h.slot)::regclass) as history_bytes,
       pg_total_relation_size(('penstock.attempt_log_' || h.slot)::regclass) as attempts_bytes,
       pg_stat_get_live_tuples(('penstock.history_log_' || h.slot)::regclass) as history_rows,
       pg_stat_get_live_tuples(('penstock.attempt_log_' || h.slot)::regclass) as attempts_rows
from penstock.history_slot h;

-- The other tables, with their sizes and dead rows. Reads the catalog.
create or replace view penstock.table_sizes as
select c.relname::text as name, pg_total_relation_size(c.oid) as bytes, pg_stat_get_live_tuples(c.oid) as live_rows,
       pg_stat_get_dead_tuples(c.oid) as dead_rows, pg_stat_get_last_autovacuum_time(c.oid) as vacuumed_at
from pg_class c
where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'r'
  and c.relname !~ '^(lane|leased|grant|body|deferred|history_log|attempt_log)_[0-9]+$';
