-- set_queue changes settings of a queue, all or none. A JSON null resets a setting to its default.
-- Locks: the row of the queue until commit. Uses queue_name_key.
create or replace function penstock.set_queue(name text, settings jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  known   constant text[] := array['lease_seconds', 'max_attempts', 'backoff', 'dlq_enabled', 'message_ttl_seconds',
                                   'max_depth', 'throughput_limit', 'max_in_flight', 'max_payload_bytes',
                                   'keep_history', 'paused'];
  q       penstock.queue;
  setting record;
begin
  if settings is null or jsonb_typeof(settings) <> 'object' then
    perform penstock._fail_value('settings', settings::text, 'a JSON object of settings');
  end if;
  select * into q from penstock.queue t where t.name = set_queue.name for no key update;
  if not found then
    perform penstock._fail_unknown_queue(set_queue.name);
  end if;
  for setting in select * from jsonb_each(settings) s (key, value) loop
    if setting.key <> all (known) then
      perform penstock._fail_value('settings', setting.key, array_to_string(known, ', '));
    end if;
    q := penstock._with_setting(q, setting.key, setting.value);
  end loop;
  if q.throughput_limit is not null and q.throughput_register is null then
    q.throughput_register := penstock._register('throughput_' || q.id);
  end if;
  if q.max_depth is not null then
    -- The register counts as full until the first enqueue has counted the messages.
    q.depth_register := coalesce(q.depth_register, penstock._register('depth_' || q.id));
    perform setval(q.depth_register, q.max_depth);
  end if;
  if settings ? 'max_in_flight' and q.max_in_flight is not null then
    perform penstock._watch_leases(q.id);
  end if;
  update penstock.queue t
  set lease_seconds = q.lease_seconds, max_attempts = q.max_attempts, backoff = q.backoff, dlq_enabled = q.dlq_enabled,
      message_ttl_seconds = q.message_ttl_seconds, max_depth = q.max_depth, throughput_limit = q.throughput_limit,
      max_in_flight = q.max_in_flight, max_payload_bytes = q.max_payload_bytes, keep_history = q.keep_history,
        paused = q.paused,
      throughput_register = q.throughput_register, depth_register = q.depth_register, updated_at = clock_timestamp()
  where t.id = q.id;
  -- The queue may have been resumed, or may have more room, so waiting consumers may find messages.
  perform penstock._wake_waiters(q);
end $$;

-- Returns the queue row with one setting changed and checked.
create or replace function penstock._with_setting(q penstock.queue, setting text, value jsonb) returns penstock.queue
language plpgsql as $$
begin
  case setting
    when 'lease_seconds' then q.lease_seconds := penstock._whole(setting, value, 1, {limit.lease_seconds}, 30);
    when 'max_attempts' then q.max_attempts := penstock._whole(setting, value, 1, 100, 5);
    when 'message_ttl_seconds' then
      q.message_ttl_seconds := penstock._whole(setting, value, 1, {limit.ttl_seconds}, null);
    when 'max_depth' then q.max_depth := penstock._whole(setting, value, 1, 1000000000, null);
    when 'throughput_limit' then q.throughput_limit := penstock._whole(setting, value, 1, 1000000, null);
    when 'max_in_flight' then q.max_in_flight := penstock._whole(setting, value, 1, 1000000, null);
    when 'max_payload_bytes' then
      q.max_payload_bytes := penstock._whole(setting, value, 1, 104857600, {payload.default_bytes});
    when 'keep_history' then q.keep_history := penstock._whole(setting, value, 0, 3650, 7);
    when 'dlq_enabled' then q.dlq_enabled := penstock._truth(setting, value, true);
    when 'paused' then q.paused := penstock._truth(setting, value, false);
    when 'backoff' then q.backoff := penstock._checked_backoff(value);
  end case;
  return q;
end $$;

-- Checks a backoff rule and fills in its defaults.
create or replace function penstock._checked_backoff(value jsonb) returns jsonb language plpgsql immutable as $$
declare
  defaults constant jsonb := '{"kind": "exponential", "base_seconds": 1, "max_seconds": 3600, "jitter": 0.2}';
  rule     jsonb;
  option   text;
begin
  if value = 'null' then
    return defaults;
  end if;
  if jsonb_typeof(value) <> 'object' then
    perform penstock._fail_value('backoff', value #>> '{}', 'a JSON object such as ' || defaults::text);
  end if;
  for option in select jsonb_object_keys(value) loop
    if not defaults ? option then
      perform penstock._fail_value('backoff', option, 'kind, base_seconds, max_seconds, jitter');
    end if;
  end loop;
  rule := defaults || value;
  if coalesce(rule ->> 'kind', '') not in ('exponential', 'linear', 'constant') then
    perform penstock._fail_value('backoff.kind', rule ->> 'kind', 'exponential, linear or constant');
  end if;
  perform penstock._number_in('backoff.base_seconds', rule -> 'base_seconds', 0, 86400);
  perform penstock._number_in('backoff.max_seconds', rule -> 'max_seconds', 0, 604800);
  perform penstock._number_in('backoff.jitter', rule -> 'jitter', 0, 1);
  return rule;
end $$;
