-- What becomes of a message when its lease ends. Only the holder of the current lease gets here: every way in deletes
-- the leased row by its token and id, before the lease runs out.

create or replace function penstock._envelope(l penstock.leased_0) returns penstock.envelope language sql immutable as $$
  select l.id, l.enqueued_at, l.expires_at, l.first_claimed_at, l.claimed_at, l.dead_at, l.queue_id, l.priority, l.attempt, l.max_attempts,
         l.body_slot, l.worker, l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error
$$;
create or replace function penstock._envelope(g penstock.grouped) returns penstock.envelope language sql immutable as $$
  select g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority, g.attempt, g.max_attempts,
         g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error
$$;

-- A message reached its end: history, if the queue keeps it; its body and its key are given free.
create or replace function penstock._finish(m penstock.envelope, state text, reason text) returns void language plpgsql as $$
declare
  q penstock.queue;
begin
  select * into q from penstock.queue t where t.id = m.queue_id;
  if q.keep_history > 0 then
    if m.body_slot is not null then
      m.payload := penstock._body_json(m.body_slot, m.id);
      m.payload_bytes := penstock._body_bytes(m.body_slot, m.id);
    end if;
    insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at, last_claimed_at, finished_at, attempts, max_attempts,
      priority, payload_bytes_count, headers_bytes_count, worker, key, group_key, last_error, headers, payload, payload_bytes)
    values (pg_sequence_last_value('penstock.history_current'), m.id, q.name, state, m.enqueued_at, m.first_claimed_at, m.claimed_at, clock_timestamp(),
      m.attempt, m.max_attempts, m.priority, coalesce(octet_length(m.payload_bytes), octet_length(m.payload::text)), coalesce(octet_length(m.headers::text), 0),
      m.worker, m.key, m.group_key, coalesce(reason, m.last_error), m.headers, m.payload, m.payload_bytes);
  end if;
  if m.body_slot is not null then
    perform penstock._drop_body(m.body_slot, m.id);
  end if;
  if m.key is not null then
    perform penstock._forget_key(m.queue_id, m.key, m.id);
  end if;
end $$;

-- A message whose lease is over and that is not done: back to its lane, the schedule or its group; dead, expired or
-- superseded. Returns the state it reached. key_wait: 'wait' for an enqueuer of the same key, or 'skip' (the caller has
-- locked it).
create or replace function penstock._give_back(l penstock.leased_0, error text, delay interval, give_up boolean, key_wait text)
returns text language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  q      penstock.queue;
  m      penstock.envelope := penstock._envelope(l);
  due    timestamptz;
  state  text;
begin
  select * into q from penstock.queue t where t.id = l.queue_id;
  m.last_error := coalesce(left(error, 8192), m.last_error);
  if l.dead_at is not null then
    insert into penstock.dead select (m).*;
    return 'dead';
  end if;
  delay := coalesce(delay, penstock._backoff(q.backoff, m.attempt));
  due := case when delay > interval '0' then now_at + delay end;
  if m.attempt >= m.max_attempts or give_up then
    state := 'dead';
  elsif m.expires_at <= now_at then
    state := 'expired';
  elsif m.key is not null then
    state := penstock._yield_key(m, key_wait);
  end if;
  state := coalesce(state, case when due is null then 'ready' else 'scheduled' end);
  if q.keep_history > 0 and (state in ('ready', 'scheduled') or state = 'dead' and q.dlq_enabled) then
    insert into penstock.attempt_log (slot, message_id, queue, attempt, worker, started_at, ended_at, error, state)
    values (pg_sequence_last_value('penstock.history_current'), m.id, q.name, m.attempt, m.worker, m.claimed_at, now_at, left(error, 8192), state);
  end if;
  perform penstock._place(q, m, state, due, l.position);
  return state;
end $$;

-- Puts a message that left its lease into the state it reached, and its group's ticket back into play.
create or replace function penstock._place(q penstock.queue, m penstock.envelope, state text, due timestamptz, old_position bigint)
returns void language plpgsql as $$
begin
  if state in ('ready', 'scheduled') then
    if not penstock._in_block() then   -- else at commit
      perform penstock._wake_waiters(q, due);
    end if;
    if m.group_key is not null then
      insert into penstock.grouped select old_position, coalesce(due, m.enqueued_at), (m).*;
      perform penstock._issue_ticket(m.queue_id, m.group_key, old_position - 1);
    elsif state = 'scheduled' then
      perform penstock._put_scheduled(due, m);
    else
      perform penstock._put_ready(m, nextval('penstock.position'));
    end if;
    return;
  end if;
  if state = 'dead' and q.dlq_enabled then
    m.dead_at := clock_timestamp();
    m.expires_at := null;
    insert into penstock.dead select (m).*;
    if m.key is not null then
      perform penstock._forget_key(m.queue_id, m.key, m.id);
    end if;
  else
    perform penstock._finish(m, state, null);
  end if;
  if m.group_key is not null then
    perform penstock._issue_ticket(m.queue_id, m.group_key, old_position);
  end if;
end $$;

-- A message with a key comes back: if another message with the key is waiting, the older of the two is superseded.
-- Null: this one may wait.
create or replace function penstock._yield_key(m penstock.envelope, key_wait text) returns text language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  waiting bigint;
  expires timestamptz;
begin
  if key_wait = 'wait' then
    perform penstock._lock_key(m.queue_id, m.key);
  end if;
  loop
    select w.id, w.expires_at into waiting, expires from penstock._waiting_with_key(m.queue_id, m.key) w;
    if waiting is null then
      update penstock.message_key k set id = m.id where k.queue_id = m.queue_id and k.key = m.key;
      if not found then
        insert into penstock.message_key (queue_id, key, id) values (m.queue_id, m.key, m.id);
      end if;
      return null;
    elsif expires <= clock_timestamp() then
      perform penstock._remove_waiting(waiting, 'expired');
    elsif waiting > m.id then
      return 'superseded';
    else
      perform penstock._remove_waiting(waiting, 'superseded');
    end if;
  end loop;
end $$;

create or replace function penstock._backoff(rule jsonb, attempt integer) returns interval language sql as $$
  select make_interval(secs => least(
      (rule ->> 'max_seconds')::double precision,
      (rule ->> 'base_seconds')::double precision * case rule ->> 'kind'
        when 'exponential' then power(2::double precision, least(attempt - 1, 60))
        when 'linear' then attempt
        else 1 end)
    * (1 - (rule ->> 'jitter')::double precision * random()))
$$;
