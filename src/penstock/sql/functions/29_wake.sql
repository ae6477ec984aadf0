-- Wake-ups. A consumer that waits for messages of a queue listens on its channel and attends to it every few seconds. Enqueuers
-- notify a queue that has such consumers, at most every 10 ms. Under load nobody waits, so nobody is notified.
-- Eight producers that only enqueue, to a queue with a waiting consumer, lose about 7 % of their pace. With a notification
-- every 2 ms it was 25 %.
--
-- NOTIFY takes a lock that all notifying transactions of the cluster share, and holds it while the commit is written to
-- disk. So at most four transactions notify at the same time, beyond one in 100 ms for each queue. A transaction block
-- decides at commit whether it notifies: see 24_at_commit.sql.
--
-- A wake-up is a hint. A message that is enqueued within those 10 ms comes without one, and may become visible later than the
-- message that had one, by as much as a commit takes. So a waiter looks again several times after each wake-up, and every
-- second or two anyway.
--
-- set penstock.wake_ups = off, for a session, role or database, stops them: two-phase commit does not allow NOTIFY.

-- The channel of a queue: its name, or the hash of a name that would be too long for one. The payload is ready, or
-- scheduled: something will be, soon; attend to learn when.
create or replace function penstock.wake_channel(queue text) returns text language sql immutable set search_path = pg_catalog, pg_temp as $$
  select 'penstock:' || case when length(queue) <= 54 then queue else md5(queue) end
$$;

-- Says that somebody waits for messages of a queue, for the next few seconds. Call it before the last look at the queue,
-- then wait. Returns in how many seconds the next message may be had that cannot be now: it is scheduled, or
-- throughput_limit holds it back; null if there is none.
-- Locks: none; the first call in the life of a queue locks its row. Uses scheduled_queue.
create or replace function penstock.attend(queue text, seconds integer default 10) returns double precision
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started  timestamptz := clock_timestamp();
  now_us   bigint := date_part('epoch', started) * 1e6;
  until_us bigint := now_us + seconds * 1000000::bigint;
  q        penstock.queue;
begin
  if seconds not between 1 and 3600 or seconds is null then
    perform penstock._fail_value('seconds', seconds::text, 'a whole number from 1 to 3600');
  end if;
  perform penstock._check_internal(attend.queue);
  select * into q from penstock.queue t where t.name = regexp_replace(attend.queue, '\.dlq$', '');
  if not found then
    perform penstock._fail_unknown_queue(attend.queue);
  elsif q.name <> attend.queue then
    return null;
  end if;
  if q.notify_register is null then
    q := penstock._make_wake_registers(q.id);
  end if;
  -- Never less than another has said, unless the clock was put back since.
  if until_us - pg_sequence_last_value(q.waiting_register) not between -3600000000 and 100000 then
    perform setval(q.waiting_register, until_us);
  end if;
  -- Nobody waited until now; or the clock was put back.
  if pg_sequence_last_value(q.notify_register) > now_us + 1000000 then
    perform setval(q.notify_register, 0);
  end if;
  -- From a second ago on: what is due for longer is the claims' own affair.
  return least(penstock._throttled_for(q, now_us),
               (select greatest(0, date_part('epoch', s.due_at - started)) from penstock.scheduled s
                where s.queue_id = q.id and s.due_at > started - interval '1 second' order by s.due_at limit 1));
end $$;

-- Where throughput_limit holds messages back: in how many seconds there are tokens again, for a twentieth of a second's
-- messages. Null where it does not. Tokens that came just now may be spent by a claim under way, and the next ones are then
-- not known yet: the caller asks again soon. Not for longer, as something else keeps the messages back then.
create or replace function penstock._throttled_for(q penstock.queue, now_us bigint) returns double precision language plpgsql as $$
declare
  lack constant double precision := (pg_sequence_last_value(q.throughput_register) - now_us) / 1e6
    - greatest(1, 1.05 / q.throughput_limit) + greatest(0.05, 1.0 / q.throughput_limit);
begin
  if lack > -0.2 and penstock._any_waiting(q.id, clock_timestamp()) then
    return case when lack > 0 then least(lack, 1) else 0.02 end;   -- at most: the clock may have been put back
  end if;
  return null;
end $$;

create or replace function penstock._make_wake_registers(queue_id integer) returns penstock.queue language plpgsql as $$
declare
  q penstock.queue;
begin
  select * into q from penstock.queue t where t.id = queue_id for no key update;
  if q.notify_register is null then
    q.notify_register := penstock._register('notify_' || q.id);
    q.waiting_register := penstock._register('waiting_' || q.id);
    update penstock.queue t set notify_register = q.notify_register, waiting_register = q.waiting_register where t.id = q.id;
  end if;
  return q;
end $$;

-- Notifies those who wait for messages of a queue, at the commit of this transaction. Enqueue asks in its one statement
-- whether it is time to: once every 10 ms while somebody waits, else never. To ask costs it 1.2 us of 16. Always true.
create or replace function penstock._wake(notify_register regclass, waiting_register regclass, queue text, what text default 'ready')
returns boolean language plpgsql as $$
declare
  never  constant bigint := 9223372036854775807;
  now_us bigint := date_part('epoch', clock_timestamp()) * 1e6;
begin
  if pg_sequence_last_value(waiting_register) < now_us then
    -- Nobody waits any more. If somebody begins to at this very moment, this undoes it: until they attend again.
    perform setval(notify_register, never);
  elsif pg_sequence_last_value(notify_register) < now_us - 100000
        or pg_try_advisory_xact_lock(1885695607, (notify_register::oid::bigint % 4)::integer) then
    perform setval(notify_register, now_us + 10000);
    -- A full notification queue would make the commit fail.
    if current_setting('penstock.wake_ups', true) is distinct from 'off' and pg_notification_queue_usage() < 0.5 then
      perform pg_notify(penstock.wake_channel(queue), what);
    end if;
  end if;
  return true;
end $$;

-- The same for all other ways in. Given when a message will be due: if that is far off, who waits will learn of it in
-- time by attending.
create or replace function penstock._wake_waiters(q penstock.queue, due timestamptz default null) returns void language plpgsql as $$
begin
  if pg_sequence_last_value(q.notify_register) <= date_part('epoch', clock_timestamp()) * 1e6
     and coalesce(due < clock_timestamp() + interval '10 seconds', true) then
    perform penstock._wake(q.notify_register, q.waiting_register, q.name, case when due is null then 'ready' else 'scheduled' end);
  end if;
end $$;
