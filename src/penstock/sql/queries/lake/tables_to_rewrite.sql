-- The tables whose files may have bytes of erased messages: those of the schema, the given tables that exist, and
-- PostgreSQL's statistics. Reads the catalog.
select n.nspname, c.relname
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'm')
  and (n.nspname = 'penstock' or c.oid = 'pg_statistic'::regclass
    or c.oid in (select to_regclass(t) from unnest(%s::text[]) t))
order by c.oid = 'pg_statistic'::regclass, 1, 2
