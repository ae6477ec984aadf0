-- Counts begin where the rows of a queue begin, and step over everything that died before: see _first_row in functions/21_sweep.sql.
alter table penstock.queue
  add column first_row_register     regclass,   -- no row of the queue lies in a lane below this position
  add column first_row_xid_register regclass;   -- for which snapshots that holds: see _first_row

do $registers$
declare
  q        penstock.queue;
  register text;
begin
  for q in select * from penstock.queue loop
    foreach register in array array['first_row', 'first_row_xid'] loop
      execute format('create sequence penstock.%I minvalue 0', register || '_' || q.id);
      perform setval(format('penstock.%I', register || '_' || q.id)::regclass, 0);
    end loop;
    update penstock.queue u
    set first_row_register = format('penstock.%I', 'first_row_' || q.id)::regclass, first_row_xid_register = format('penstock.%I', 'first_row_xid_' || q.id)::regclass
    where u.id = q.id;
  end loop;
end $registers$;

alter table penstock.queue alter column first_row_register set not null, alter column first_row_xid_register set not null;

-- These have other parameters.
drop function if exists penstock._count(integer, timestamptz);
drop function if exists penstock._rescan(penstock.queue, boolean);
drop function if exists penstock._rescan_lanes(penstock.queue);
drop function if exists penstock._tick(bigint);
