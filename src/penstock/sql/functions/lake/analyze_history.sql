-- Computes all statistics of the schema again. PostgreSQL keeps common values of a column in them, so a payload that
-- was erased may still be there, for every table that the message has passed through. Tables without statistics get
-- none. ANALYZE leaves the statistics of an empty table as they are, so they are cleared first. Before PostgreSQL 18
-- only a superuser can do that. For `penstock lake forget`. Locks: the tables with statistics, against vacuum and
-- changes of their definition, until commit. Reads a sample of each.
create or replace function penstock.analyze_history() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  targets regclass[] := array(
    select distinct coalesce(pg_partition_root(c.oid), c.oid)
    from pg_stats s join pg_class c on c.relname = s.tablename and c.relnamespace = 'penstock'::regnamespace
    where s.schemaname = 'penstock' and c.relkind in ('r', 'p'));
  target regclass;
begin
  if current_setting('server_version_num')::integer >= 180000 then
    perform pg_clear_attribute_stats(s.schemaname::text, s.tablename::text, s.attname::text, s.inherited)
    from pg_stats s where s.schemaname = 'penstock';
  else
    begin
      delete from pg_statistic s using pg_class c
      where c.oid = s.starelid and c.relnamespace = 'penstock'::regnamespace;
    exception when insufficient_privilege then
      null;
    end;
  end if;
  foreach target in array targets loop
    execute format('analyze %s', target);
  end loop;
end $$;
