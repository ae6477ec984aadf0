-- wake_channel returns the channel of a queue: its name, or the hash of a name that would be too long. The payload of a
-- notification is ready, or scheduled: a message will be ready soon, and attend says when. enqueue/wake.sql explains
-- wake-ups.
-- Locks: none. Indexes: none.
create or replace function penstock.wake_channel(queue text) returns text language sql immutable
set search_path = pg_catalog, pg_temp as $$
  select 'penstock:' || case when length(queue) <= 54 then queue else md5(queue) end
$$;

-- Says that a consumer waits for messages of a queue, for the next few seconds. Call it before the last look at the
-- queue, then wait. Returns in how many seconds a message may become available that is scheduled, or held back by
-- throughput_limit; null if there is none. Locks: none, except the row of the queue at the first call. Uses
-- scheduled_queue.
create or replace function penstock.attend(queue text, seconds integer default 10) returns double precision
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started  timestamptz := clock_timestamp();
  now_us   bigint := date_part('epoch', started) * 1e6;
  until_us bigint := now_us + seconds * {timing.second}::bigint;
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
  -- Never earlier than another consumer has said, unless the clock was set back since.
  if until_us - pg_sequence_last_value(q.waiting_register)
    not between -{timing.longest_wait} and {timing.wait_margin} then
    perform setval(q.waiting_register, until_us);
  end if;
  -- No consumer waited until now, or the clock was set back.
  if pg_sequence_last_value(q.notify_register) > now_us + {timing.second} then
    perform setval(q.notify_register, 0);
  end if;
  -- From a second ago on: claims take care of messages that have been due for longer.
  return least(penstock._throttled_for(q, now_us),
               (select greatest(0, date_part('epoch', s.due_at - started)) from penstock.scheduled s
                where s.queue_id = q.id and s.due_at > started - interval '1 second' order by s.due_at limit 1));
end $$;

-- Returns the number of seconds until throughput_limit has tokens for a twentieth of a second again. Null if the limit
-- delays no message. If there are tokens now, a claim that is running may spend them, so the caller asks again after 20
-- ms. It does so for 200 ms, because after that something else delays the messages. Locks: ACCESS SHARE. Indexes: as
-- _any_waiting.
create or replace function penstock._throttled_for(q penstock.queue, now_us bigint) returns double precision
language plpgsql as $$
declare
  lack constant double precision := (pg_sequence_last_value(q.throughput_register) - now_us) / 1e6
    - greatest(1, 1.05 / q.throughput_limit) + greatest(0.05, 1.0 / q.throughput_limit);
begin
  if lack > -0.2 and penstock._any_waiting(q.id, clock_timestamp()) then
    return case when lack > 0 then least(lack, 1) else 0.02 end;   -- at most: the clock may have been put back
  end if;
  return null;
end $$;

-- Does a queue have a message that could be claimed now? Uses lane_N_order and grouped_order. Locks: ACCESS SHARE.
create or replace function penstock._any_waiting(queue_id integer, now_at timestamptz) returns boolean language plpgsql
  stable
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer;
begin
  if exists (select from penstock.grouped t where t.queue_id = _any_waiting.queue_id and t.visible_at <= now_at) then
    return true;
  end if;
  foreach slot in array penstock._slots_by_age() loop
    --: branch on slot
    if exists (select from penstock.lane_{slot} t where t.queue_id = _any_waiting.queue_id and t.hold = 0
      and t.group_key is null) then
      return true;
    end if;
    --: end
  end loop;
  return false;
end $$;
