-- The long path of enqueue: checks every argument by name, then handles keys, groups, delays, limits and large
-- payloads.
-- Locks and indexes: as enqueue.
create or replace function penstock._enqueue_checked(
  queue text, payload jsonb, payload_bytes bytea, headers jsonb, key text, priority integer, group_key text,
    delay interval,
  visible_at timestamptz, ttl interval, max_attempts integer, on_conflict text, unique_while text)
returns bigint language plpgsql as $$
declare
  q   penstock.queue;
  m   penstock.envelope;
  due timestamptz;
begin
  select * into q from penstock.queue t where t.name = _enqueue_checked.queue;
  if not found then
    perform penstock._check_name(_enqueue_checked.queue);
    perform penstock._fail_unknown_queue(_enqueue_checked.queue);
  end if;
  perform penstock._check_message(q, payload, payload_bytes, headers, key, priority, group_key, delay, visible_at, ttl,
    max_attempts);
  if on_conflict not in ('replace', 'skip', 'error') or on_conflict is null then
    perform penstock._fail_value('on_conflict', on_conflict, 'replace, skip or error');
  end if;
  if unique_while not in ('waiting', 'unfinished') or unique_while is null then
    perform penstock._fail_value('unique_while', unique_while, 'waiting or unfinished');
  end if;
  m.enqueued_at := clock_timestamp();
  m.expires_at := m.enqueued_at + coalesce(ttl, make_interval(secs => q.message_ttl_seconds));
  m.queue_id := q.id;
  m.priority := priority;
  m.attempt := 0;
  m.max_attempts := coalesce(max_attempts, q.max_attempts);
  m.key := key;
  m.group_key := group_key;
  m.headers := headers;
  m.payload := payload;
  m.payload_bytes := payload_bytes;
  due := coalesce(visible_at, m.enqueued_at + delay);
  if due <= m.enqueued_at then
    due := null;
  end if;
  if m.priority <> all (q.priorities) or q.plain and (m.expires_at is not null or m.group_key is not null) then
    perform penstock._widen(q, penstock._lane_bits(m.priority, m.expires_at is null and m.group_key is null));
  end if;
  if m.key is not null then
    return penstock._enqueue_keyed(q, m, due, on_conflict, unique_while);
  end if;
  return penstock._admit(q, m, due);
end $$;
