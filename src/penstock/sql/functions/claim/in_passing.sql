-- The upkeep that claims do, each part at its own interval: floors every 5 ms, upkeep every 50 ms, the safety net every
-- second.
-- Locks: the sweep lock of the queue, without waiting. Uses lane_N_order through _sweep.
create or replace function penstock._in_passing(q penstock.queue) returns void language plpgsql as $$
declare
  now_us bigint := date_part('epoch', clock_timestamp()) * 1e6;
  sweeps constant boolean := penstock._may_sweep();   -- before registers are set, which counts as writing
begin
  if penstock._is_due(q.sweep_register, now_us, {timing.sweep_ahead}) and sweeps then
    perform penstock._sweep(q, now_us);
    if penstock._is_due(q.rescan_register, now_us, {timing.rescan_ahead}) then
      perform penstock._rescan(q, true, sweeps => true);
    end if;
  end if;
  if penstock._is_due('penstock.tick_at', now_us, {timing.tick_ahead}) then
    perform penstock._tick(now_us, sweeps);
  end if;
end $$;

-- May this transaction sweep and close segments? Both have to see what all others have committed. An old snapshot does
-- not show that. A transaction that has written something may not do it either: it does not see messages that it has
-- claimed, but they come back if it is rolled back.
create or replace function penstock._may_sweep() returns boolean language sql volatile as $$
  select current_setting('transaction_isolation') = 'read committed'
    and (penstock._alone() or pg_current_xact_id_if_assigned() is null)
$$;

-- Is there upkeep to do? Each part has its clock and its budget. What changes only a register is done at once. What
-- moves messages or truncates is announced for the commit: a claim may be the first statement of a long transaction,
-- and no other session could reach messages that it has moved. Locks: those of _raise_timer_floor and _close_segments,
-- none of which it waits for. It sets registers, which needs no lock: if two sessions do so at the same time, both
-- look. Indexes: as _timers_due.
create or replace function penstock._tick(now_us bigint, sweeps boolean) returns void language plpgsql as $$
declare
  due      boolean;
  spent_us bigint;
begin
  perform penstock._notice_step(now_us);
  perform setval('penstock.tick_at', now_us + {timing.tick});
  if current_setting('transaction_isolation') <> 'read committed' then
    return;
  end if;
  due := penstock._timers_due();
  if sweeps and not due and pg_sequence_last_value('penstock.clock_was_at') = 0 then
    -- Claims look for due messages and expired leases from these floors on, past the index entries of settled messages.
    perform penstock._raise_timer_floor('penstock.due_floor', now_us - {timing.timer_margin}),
      penstock._raise_timer_floor('penstock.lease_floor', now_us - {timing.timer_margin});
  end if;
  due := due or penstock._is_due('penstock.upkeep_at', now_us, {timing.upkeep_ahead})
    or pg_sequence_last_value('penstock.clock_was_at') > 0;
  if sweeps and penstock._is_due('penstock.ring_check_at', now_us, {timing.ring_check_ahead}) then
    perform setval('penstock.ring_check_at', now_us + {timing.ring_check});
    now_us := date_part('epoch', clock_timestamp()) * 1e6;
    due := penstock._close_segments() or due;
    -- Looking takes at most a twentieth of the time, except after a burst.
    spent_us := date_part('epoch', clock_timestamp()) * 1e6 - now_us;
    perform setval('penstock.ring_check_at',
      now_us + greatest({timing.ring_check}, least({timing.longest_ring_check}, 20 * spent_us)));
  end if;
  if due then
    perform penstock._announce('upkeep', 'upkeep', null);
  end if;
end $$;
