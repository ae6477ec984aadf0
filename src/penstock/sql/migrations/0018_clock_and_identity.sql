-- What the clock showed before it was put back, in microseconds, until leases are dated again: see functions/23_clock.sql.
create sequence penstock.clock_was_at minvalue 0;
select setval('penstock.clock_was_at', 0);

-- Each table says by what a row is known to logical replication: without that, a publication for all tables makes every
-- UPDATE and DELETE fail. It counts only where wal_level is logical. Messages are known by all their columns, as they
-- have no unique index and every insert would pay for one. Large payloads are known by their id, so that the WAL does not hold them once more.
do $identities$
declare
  t record;
begin
  for slot in 0 .. 8 loop
    execute format('drop index penstock.body_%s_id', slot);
    execute format('create unique index body_%1$s_id on penstock.body_%1$s (id)', slot);
    execute format('alter table penstock.body_%1$s replica identity using index body_%1$s_id', slot);
  end loop;
  alter table penstock.grouped replica identity using index grouped_id;
  for t in select c.oid::regclass as name from pg_class c
           where c.relnamespace = 'penstock'::regnamespace and c.relkind in ('r', 'p') and c.relreplident = 'd'
             and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary) loop
    execute format('alter table %s replica identity full', t.name);
  end loop;
end $identities$;
