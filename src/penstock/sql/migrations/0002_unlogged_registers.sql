-- Registers that only save work become unlogged (sql/layout/register.sql): setting one takes no transaction id, so that a
-- claim that found nothing does not wait for the disk. A register that is in use by a long transaction stays logged,
-- which works as well: the migration waits for it for a tenth of a second at most.
-- Clients from version 1 on work with it.
do $$
declare
  register text;
begin
  for register in
    select c.relname from pg_class c
    where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'S' and c.relpersistence = 'p'
      and (c.relname ~ '^(floor|sweep|rescan|generation|mark|settled|first_row|first_row_xid|drained)_[0-9]'
           or c.relname in ('tick_at', 'ring_check_at', 'upkeep_at', 'timer_rescan_at', 'lease_floor', 'due_floor',
                            'flips_begun', 'flips_over'))
    order by c.oid loop
    begin
      set local lock_timeout = '100ms';
      execute format('alter sequence penstock.%I set unlogged', register);
    exception when lock_not_available then
      null;
    end;
  end loop;
end $$;
alter sequence penstock.flips_begun start 1;
alter sequence penstock.flips_over start 1;
