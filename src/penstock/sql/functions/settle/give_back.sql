-- Puts back a message whose lease is over and that is not done: into its lane, the schedule or its group; or it becomes
-- dead, expired or superseded. Returns the state it reached. Only the holder of the current lease gets here: every
-- caller has deleted the leased row by its token and id. key_wait: 'wait' for an enqueuer of the same key, or 'skip'
-- (the caller has locked the key). Locks: the row of the key, until commit. Uses message_key_pkey.
create or replace function penstock._give_back(l penstock.leased_0, error text, delay interval, give_up boolean,
  key_wait text)
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
    values (pg_sequence_last_value('penstock.history_current'), m.id, q.name, m.attempt, m.worker, m.claimed_at, now_at,
      left(error, 8192), state);
  end if;
  perform penstock._place(q, m, state, due, l.position);
  return state;
end $$;

-- Puts a message that left its lease into the state it reached, and issues the group token of its group. Locks: the new
-- row, and as _issue_group_token. Indexes: none.
create or replace function penstock._place(q penstock.queue, m penstock.envelope, state text, due timestamptz,
  old_position bigint)
returns void language plpgsql as $$
begin
  if state in ('ready', 'scheduled') then
    if not penstock._in_block() then   -- else at commit
      perform penstock._wake_waiters(q, due);
    end if;
    if m.group_key is not null then
      insert into penstock.grouped select old_position, coalesce(due, m.enqueued_at), (m).*;
      perform penstock._issue_group_token(m.queue_id, m.group_key, old_position - 1);
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
    perform penstock._bury_member(m.id);
  else
    perform penstock._finish(m, state, null);
  end if;
  if m.group_key is not null then
    perform penstock._issue_group_token(m.queue_id, m.group_key, old_position);
  end if;
end $$;

-- The delay before the next attempt.
create or replace function penstock._backoff(rule jsonb, attempt integer) returns interval language sql as $$
  select make_interval(secs => least(
      (rule ->> 'max_seconds')::double precision,
      (rule ->> 'base_seconds')::double precision * case rule ->> 'kind'
        when 'exponential' then power(2::double precision, least(attempt - 1, 60))
        when 'linear' then attempt
        else 1 end)
    * (1 - (rule ->> 'jitter')::double precision * random()))
$$;
