-- Creates a batch and returns its id. It is open: add_to_batch adds members until seal_batch closes it. on_success,
-- on_failure and on_finish are messages to enqueue when all members have ended: arrays of objects with the parameters
-- of penstock.enqueue. on_success if every member is done, on_failure if one of them is not, on_finish in both cases.
-- Locks: none. Uses queue_name_key.
create or replace function penstock.create_batch(name text default null, on_success jsonb default '[]',
  on_failure jsonb default '[]', on_finish jsonb default '[]')
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  new_id bigint;
begin
  if length(name) not between 1 and 200 then
    perform penstock._fail_value('name', name, '1 to 200 characters');
  end if;
  perform penstock._check_batch_messages('on_success', on_success);
  perform penstock._check_batch_messages('on_failure', on_failure);
  perform penstock._check_batch_messages('on_finish', on_finish);
  insert into penstock.batch (name, on_success, on_failure, on_finish)
  values (create_batch.name, create_batch.on_success, create_batch.on_failure, create_batch.on_finish)
  returning id into new_id;
  return new_id;
end $$;

-- Checks the messages of a batch when it is created. They are enqueued later, by any caller, and then it would be too
-- late to report it to the caller. Internal queues are refused to all roles for the same reason. Locks:
-- none. Uses queue_name_key.
create or replace function penstock._check_batch_messages(field text, messages jsonb) returns void language plpgsql
  as $$
declare
  known constant text[] := array['queue', 'payload', 'headers', 'key', 'priority', 'group_key', 'delay', 'visible_at',
                                 'ttl', 'max_attempts', 'on_conflict', 'unique_while'];
  m     record;
  q     penstock.queue;
begin
  if messages is null or jsonb_typeof(messages) <> 'array' or jsonb_array_length(messages) > 10 then
    perform penstock._fail_value(field, left(messages::text, 100), 'an array of up to 10 objects');
  end if;
  for m in select e.value as text from jsonb_array_elements(messages) e loop
    if jsonb_typeof(m.text) <> 'object' or exists (select from jsonb_object_keys(m.text) k where k <> all (known)) then
      perform penstock._fail_value(field, left(m.text::text, 100), 'objects with ' || array_to_string(known, ', '));
    end if;
  end loop;
  for m in select * from penstock._messages_of(messages) loop
    if m.queue ^@ 'penstock.' then
      perform penstock._fail_value(field, m.queue, 'a queue whose name does not begin with "penstock."');
    end if;
    select * into q from penstock.queue t where t.name = m.queue;
    if not found then
      perform penstock._fail_unknown_queue(m.queue);
    end if;
    perform penstock._check_message(q, m.payload, null, m.headers, m.key, coalesce(m.priority, 0), m.group_key, m.delay,
      m.visible_at, m.ttl, m.max_attempts);
  end loop;
end $$;

-- Reads an array of messages.
create or replace function penstock._messages_of(messages jsonb) returns table ("after" bigint, continues boolean,
  queue text, payload jsonb, headers jsonb, key text, priority integer, group_key text, delay interval,
  visible_at timestamptz, ttl interval, max_attempts integer, on_conflict text, unique_while text)
language sql stable as $$
  select * from jsonb_to_recordset(messages) m ("after" bigint, continues boolean, queue text, payload jsonb,
    headers jsonb, key text, priority integer, group_key text, delay interval, visible_at timestamptz, ttl interval,
    max_attempts integer, on_conflict text, unique_while text)
$$;
