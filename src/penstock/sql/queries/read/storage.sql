-- The sizes on disk, as one JSON document: the database, the segments of the ring, the slots of history and the other
-- tables, with their dead rows according to PostgreSQL's statistics. Locks: ACCESS SHARE.
select json_build_object(
  'database_bytes', pg_database_size(current_database()),
  'segments', (select json_agg(s order by s.slot) from penstock.segments s),
  'history', (select json_agg(h order by h.begun_at desc) from penstock.history_slots h),
  'tables', (select json_agg(t order by t.bytes desc) from penstock.table_sizes t),
  'connections', (select count(*) from pg_stat_activity a where a.backend_type = 'client backend'),
  'transaction_age', (select age(d.datfrozenxid) from pg_database d where d.datname = current_database()))::text
