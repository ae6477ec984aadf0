-- Returns whether a lease of this queue has expired. If no lease expires before the next sweep, it sets the lowest bit
-- of the sweep register, and claims skip the search until that sweep. New leases last for at least a second, so none of
-- them expires earlier. _forget_quiet clears the bit if a lease gets an earlier end. It is set only if the quiet lock
-- is free and the register has not changed since this call read it, so no call of _forget_quiet is overwritten.
-- Locks: the quiet lock of the queue, without waiting, released at once. Uses leased_N_until and grant_N_until.
create or replace function penstock._any_lease_ends(queue_id integer, started timestamptz, notes boolean)
returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  after    constant timestamptz := to_timestamp({register.value('penstock.lease_floor')}::float8 / float8 '1e6');
  register regclass;
  sweep_us bigint;
  sweep_at timestamptz;
begin
  if notes then
    select q.sweep_register, {register.value(q.sweep_register)} into register, sweep_us from penstock.queue q
      where q.id = _any_lease_ends.queue_id;
    sweep_at := to_timestamp(sweep_us::float8 / float8 '1e6');
    if sweep_at between started and started + interval '100 milliseconds'
       and not penstock._any_expired(_any_lease_ends.queue_id, after, sweep_at, sweep_at) then
      perform case when pg_try_advisory_lock({lock.quiet}, queue_id) and pg_advisory_unlock({lock.quiet}, queue_id)
                        and {register.value(register)} = sweep_us
                          then setval(register, {sweep.quiet(sweep_us)}) end;
      return false;
    end if;
  end if;
  return penstock._any_expired(_any_lease_ends.queue_id, after, started, started);
end $$;

-- A lease of this queue ends so soon that the next claims have to look for it.
-- Locks: the quiet lock of the queue, shared, until the commit is visible. No transaction waits for it. Uses
-- queue_pkey.
create or replace function penstock._forget_quiet(queue_id integer, until timestamptz) returns void language plpgsql
  as $$
begin
  if until < clock_timestamp() + interval '1 second' then
    perform pg_advisory_xact_lock_shared({lock.quiet}, queue_id);
    perform setval(q.sweep_register, 0) from penstock.queue q where q.id = _forget_quiet.queue_id;
  end if;
end $$;
