-- At commit: messages were scheduled, or leased. If the transaction was open for long, the floors of the timers are
-- lowered to when it began: everything it has written is due later than that.
-- Locks: the lock of the timers, shared, until the commit is visible. Indexes: none.
create or replace function penstock._commit_timers(queue_id integer default null) returns void language plpgsql as $$
declare
  began_us constant bigint := date_part('epoch', transaction_timestamp()) * 1e6;
begin
  if penstock._is_long() then
    perform pg_advisory_xact_lock_shared({lock.timers}, 0);
    perform pg_advisory_lock({lock.timers}, 1),
      setval('penstock.due_floor', least({register.value('penstock.due_floor')}, began_us)),
      setval('penstock.lease_floor', least({register.value('penstock.lease_floor')}, began_us)),
      pg_advisory_unlock({lock.timers}, 1);
    perform penstock._forget_quiet(_commit_timers.queue_id, '-infinity');
  end if;
end $$;
