-- Wake-ups. A consumer that waits for messages of a queue listens on its channel and calls attend every few seconds.
-- Enqueuers notify a queue with such consumers, at most every 10 ms. Under load no consumer waits, so none is
-- notified. Eight producers that only enqueue, to a queue with a waiting consumer, lose about 7 % of their pace. With a
-- notification every 2 ms they lost 25 %.
--
-- NOTIFY takes a lock that all notifying transactions of the cluster share, and holds it while the commit is written to
-- disk. So at most four transactions notify at the same time, beyond one in 100 ms for each queue. A transaction block
-- decides at commit whether it notifies: see background/commit_put.sql.
--
-- A wake-up is a hint. A message that is enqueued within those 10 ms gets no wake-up, and may become visible later
-- than the message that had one, by as much as a commit takes. So a waiter looks again several times after each
-- wake-up, and every second or two anyway. `set penstock.wake_ups = off` stops them: two-phase commit does not allow
-- NOTIFY.
--
-- _wake notifies the waiters of a queue at the commit of this transaction. enqueue asks in its one statement whether it
-- is time to: once every 10 ms while a consumer waits, else never. To ask costs 1.2 us of 16. Always returns true.
-- Locks: one of four notify locks until commit, without waiting. Indexes: none.
create or replace function penstock._wake(notify_register regclass, waiting_register regclass, queue text,
  what text default 'ready')
returns boolean language plpgsql as $$
declare
  never  constant bigint := {notify.never};
  now_us bigint := date_part('epoch', clock_timestamp()) * 1e6;
begin
  if pg_sequence_last_value(waiting_register) < now_us then
    -- No consumer waits now. If one begins to wait at this moment, this hides it until it calls attend again.
    perform setval(notify_register, never);
  elsif pg_sequence_last_value(notify_register) < now_us - {timing.wake_up_overdue}
        or pg_try_advisory_xact_lock({lock.notify}, {lock.notify_object(notify_register)}) then
    perform setval(notify_register, now_us + {timing.wake_up});
    -- A full notification queue would make the commit fail.
    if current_setting('penstock.wake_ups', true) is distinct from 'off' and pg_notification_queue_usage() < 0.5 then
      perform pg_notify(penstock.wake_channel(queue), what);
    end if;
  end if;
  return true;
end $$;

-- The same for all other ways to enqueue. due: when a message will be ready; if that is far off, waiters learn it in
-- time from attend. Locks: as _wake. Indexes: none.
create or replace function penstock._wake_waiters(q penstock.queue, due timestamptz default null) returns void
language plpgsql as $$
begin
  if pg_sequence_last_value(q.notify_register) <= date_part('epoch', clock_timestamp()) * 1e6
     and coalesce(due < clock_timestamp() + interval '10 seconds', true) then
    perform penstock._wake(q.notify_register, q.waiting_register, q.name, case when due is null then 'ready'
      else 'scheduled' end);
  end if;
end $$;

-- Creates the registers for wake-ups of a queue, at the first call of attend. Locks the row of the queue. Uses
-- queue_pkey.
create or replace function penstock._make_wake_registers(queue_id integer) returns penstock.queue language plpgsql as $$
declare
  q penstock.queue;
begin
  select * into q from penstock.queue t where t.id = queue_id for no key update;
  if q.notify_register is null then
    q.notify_register := penstock._register('notify_' || q.id);
    q.waiting_register := penstock._register('waiting_' || q.id);
    update penstock.queue t set notify_register = q.notify_register, waiting_register = q.waiting_register
      where t.id = q.id;
  end if;
  return q;
end $$;
