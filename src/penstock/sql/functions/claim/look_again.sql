-- A claim found too few messages and looks for due messages and expired leases. It moves no more than it will take
-- itself: no other session could reach the rest until this transaction ends. A claim that found nothing also runs the
-- safety net (_rescan), at most once a second. True if it found something.
-- Locks: the rows it moves, with SKIP LOCKED. Uses scheduled_queue, leased_N_until and grant_N_until.
create or replace function penstock._look_again(q penstock.queue, wanted integer, has_some boolean) returns boolean
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  sweep_us constant bigint := {register.value(q.sweep_register)};
begin
  return penstock._look_again(q.id, wanted, has_some, true,
    {sweep.is_quiet(sweep_us)} and to_timestamp(sweep_us / 1e6) between clock_timestamp()
      and clock_timestamp() + interval '1 second');
end $$;

-- The same by the id of a queue. tends: not the first claim of a session, which leaves upkeep to others. quiet: no
-- lease can have expired. Locks and indexes: as the function above.
create or replace function penstock._look_again(queue_id integer, wanted integer, has_some boolean, tends boolean,
  quiet boolean) returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  started   timestamptz := clock_timestamp();
  due_after timestamptz;
  turned_up boolean;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return false;
  end if;
  -- Most claims that look find nothing. Asking first saves the statements that move messages, and new sessions their
  -- planning. A table without blocks is skipped. The planner settings are those of claim.
  if pg_relation_size('penstock.scheduled', 'main') > bigint '0' then
    due_after := to_timestamp({register.value('penstock.due_floor')}::float8 / float8 '1e6');
    turned_up := exists (select from penstock.scheduled s where s.queue_id = _look_again.queue_id
      and s.due_at > due_after and s.due_at <= started);
  end if;
  if turned_up or not quiet and penstock._any_lease_ends(_look_again.queue_id, started, tends) then
    turned_up := penstock._run_timers(_look_again.queue_id, wanted) > 0;
  end if;
  if not has_some and turned_up is not true then
    if penstock._has_announced(_look_again.queue_id) then
      -- A floor may have passed messages of this transaction, because no other session sees them yet.
      select penstock._rescan(penstock._with_lanes(q), false) into turned_up from penstock.queue q
        where q.id = _look_again.queue_id;
    elsif tends and not quiet then
      select penstock._rescan(penstock._with_lanes(q), true) into turned_up from penstock.queue q
      -- Due, or further ahead than it is ever set.
      where q.id = _look_again.queue_id
        and abs(date_part('epoch', clock_timestamp()) * float8 '1e6'
          + float8 '1e6' - {register.value(q.rescan_register)}::float8) >= float8 '1e6';
    end if;
  end if;
  return coalesce(turned_up, false);
end $$;
