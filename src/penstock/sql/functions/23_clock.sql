-- Clocks that are put back. Registers hold times, and what was written by a clock that ran ahead is dated in the future. Each
-- register that is further ahead than it is ever set counts as not set: see _is_due. Here is the rest: a step back is
-- noticed, floors of timers are lowered, and leases and retries are dated again.

-- By how much the clock was put back, in microseconds, as far as registers tell that no claim has corrected yet; else 0. A
-- step of up to a second is passed over. Ticks are set 50 ms ahead, floors of timers never.
create or replace function penstock._step_us(now_us bigint) returns bigint language sql volatile as $$
  select case when s.us > 1000000 then s.us else 0 end
  from (select greatest(pg_sequence_last_value('penstock.tick_at') - 50000, pg_sequence_last_value('penstock.upkeep_at') - 60000000,
                        pg_sequence_last_value('penstock.due_floor'), pg_sequence_last_value('penstock.lease_floor')) - now_us as us) s
$$;

-- The same in seconds, for `penstock doctor`.
create or replace function penstock.clock_step() returns double precision language sql security definer set search_path = pg_catalog, pg_temp as $$
  select penstock._step_us((date_part('epoch', clock_timestamp()) * 1e6)::bigint) / 1e6
$$;

-- If the clock was put back: resets all registers that are ahead, and notes what it showed before for _redate. Only registers
-- change, so this is safe in anybody's transaction.
create or replace function penstock._notice_step(now_us bigint) returns void language plpgsql as $$
declare
  step_us constant bigint := penstock._step_us(now_us);
begin
  if step_us = 0 then
    return;
  end if;
  raise log 'penstock: the clock was put back by % s', round(step_us / 1e6, 1);
  perform setval('penstock.clock_was_at', now_us + step_us), setval('penstock.tick_at', 0), setval('penstock.ring_check_at', 0),
    setval('penstock.upkeep_at', 0), setval('penstock.timer_rescan_at', 0), setval('penstock.due_floor', 0), setval('penstock.lease_floor', 0);
  perform setval(q.sweep_register, 0), setval(q.rescan_register, 0) from penstock.queue q;
  perform setval(q.notify_register, 0) from penstock.queue q
  where pg_sequence_last_value(q.notify_register) between now_us + 1000000 and 9223372036854775806;   -- one more says: nobody waits
end $$;

select penstock._unroll($unroll$
-- After a step back, leases, retries and schedules that were written by the clock that ran ahead are moved back by as much. They
-- would last, or wait, that much longer otherwise. What was claimed in place moves to leased_N, as if it were extended.
-- Scans the tables of messages once. Locks the rows that it changes, and passes over those that others have locked.
create or replace function penstock._redate() returns void language plpgsql as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  was_us  bigint := pg_sequence_last_value('penstock.clock_was_at');
  step    interval;
begin
  if was_us = 0 or not pg_try_advisory_xact_lock(1885695603, 3) then
    return;
  end if;
  step := greatest(to_timestamp(was_us / 1e6) - started, interval '0');
  --[
  with gone as (
    delete from penstock.held_{slot} where place = any (array(
      select h.place from penstock.held_{slot} h where h.claimed_at > started and h.lease_until > started for update skip locked)) returning {leased})
  insert into penstock.leased_{slot} select * from gone;
  update penstock.leased_{slot} l
  set lease_until = l.lease_until - step, claimed_at = l.claimed_at - step, first_claimed_at = least(l.first_claimed_at, l.claimed_at - step)
  where l.ctid = any (array(
    select t.ctid from penstock.leased_{slot} t where t.claimed_at > started and t.lease_until > started for update skip locked));
  --]
  -- First the tickets of groups, then the messages that they lead to.
  update penstock.scheduled s set due_at = s.due_at - step
  where s.ctid = any (array(
    select t.ctid from penstock.scheduled t where t.due_at > started and t.group_key is not null and exists (
      select from penstock.grouped g where g.queue_id = t.queue_id and g.group_key = t.group_key and g.position > t.id and g.claimed_at > started)
    for update skip locked));
  update penstock.grouped g set visible_at = g.visible_at - step, claimed_at = g.claimed_at - step
  where g.ctid = any (array(select t.ctid from penstock.grouped t where t.claimed_at > started for update skip locked));
  update penstock.scheduled s set due_at = s.due_at - step, claimed_at = s.claimed_at - step
  where s.ctid = any (array(select t.ctid from penstock.scheduled t where t.claimed_at > started for update skip locked));
  update penstock.schedule s set next_fire_at = least(s.next_fire_at, penstock._next_fire(s.cron, s.time_zone, started)), last_fire_at = started
  where s.id = any (array(select t.id from penstock.schedule t where t.last_fire_at > started for no key update skip locked));
  perform setval('penstock.clock_was_at', 0);
end $$;
$unroll$);
