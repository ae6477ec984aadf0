-- Clocks that are set back. Registers hold times, and rows written by a clock that ran ahead are dated in the future. A
-- register that is further ahead than it is ever set counts as not set (_is_due). The rest is here: a step back is
-- noticed, floors of timers are lowered, and leases and retries are dated again.
--
-- _notice_step: if the clock was set back, resets all registers that are ahead, and notes for _redate the time
-- before the step. Only registers change, so any transaction may do this. Locks: none. Indexes: none.
create or replace function penstock._notice_step(now_us bigint) returns void language plpgsql as $$
declare
  step_us constant bigint := penstock._step_us(now_us);
begin
  if step_us = 0 then
    return;
  end if;
  raise log 'penstock: the clock was put back by % s', round(step_us / 1e6, 1);
  perform setval('penstock.clock_was_at', now_us + step_us), setval('penstock.tick_at', 0),
    setval('penstock.ring_check_at', 0), setval('penstock.upkeep_at', 0), setval('penstock.timer_rescan_at', 0),
    setval('penstock.due_floor', 0), setval('penstock.lease_floor', 0);
  perform setval(q.sweep_register, 0), setval(q.rescan_register, 0) from penstock.queue q;
  perform setval(q.notify_register, 0) from penstock.queue q
  where pg_sequence_last_value(q.notify_register) between now_us + {timing.second} and {notify.never} - 1;
end $$;

-- After a step back, moves the ends of leases, retries and schedules back that were written by the clock that ran
-- ahead. They would last, or wait, that much longer otherwise. A message that is leased in place moves to leased_N, as
-- if it were extended. Scans the tables of messages once. Locks the rows that it changes, with SKIP LOCKED. Indexes:
-- none.
create or replace function penstock._redate() returns void language plpgsql as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  was_us  bigint := pg_sequence_last_value('penstock.clock_was_at');
  step    interval;
begin
  if was_us = 0 or not pg_try_advisory_xact_lock({lock.clock}) then
    return;
  end if;
  step := greatest(to_timestamp(was_us / 1e6) - started, interval '0');
  --: for each segment
  with gone as (
    delete from penstock.held_{slot} where place = any (array(
      select h.place from penstock.held_{slot} h where h.claimed_at > started and h.lease_until > started
        for update skip locked)) returning {leased})
  insert into penstock.leased_{slot} select * from gone;
  update penstock.leased_{slot} l
  set lease_until = l.lease_until - step, claimed_at = l.claimed_at - step,
    first_claimed_at = least(l.first_claimed_at, l.claimed_at - step)
  where l.ctid = any (array(
    select t.ctid from penstock.leased_{slot} t where t.claimed_at > started and t.lease_until > started
      for update skip locked));
  --: end
  -- First the group tokens, then the messages that they lead to.
  update penstock.scheduled s set due_at = s.due_at - step
  where s.ctid = any (array(
    select t.ctid from penstock.scheduled t where t.due_at > started and t.group_key is not null and exists (
      select from penstock.grouped g where g.queue_id = t.queue_id and g.group_key = t.group_key and g.position > t.id
        and g.claimed_at > started)
    for update skip locked));
  update penstock.grouped g set visible_at = g.visible_at - step, claimed_at = g.claimed_at - step
  where g.ctid = any (array(select t.ctid from penstock.grouped t where t.claimed_at > started for update skip locked));
  update penstock.scheduled s set due_at = s.due_at - step, claimed_at = s.claimed_at - step
  where s.ctid = any (array(select t.ctid from penstock.scheduled t where t.claimed_at > started
    for update skip locked));
  update penstock.schedule s set next_fire_at = least(s.next_fire_at,
    penstock._next_fire(s.cron, s.time_zone, started)), last_fire_at = started
  where s.id = any (array(select t.id from penstock.schedule t
    where t.last_fire_at > started for no key update skip locked));
  perform setval('penstock.clock_was_at', 0);
end $$;
