-- Topics. A queue is bound to patterns, and a message with a routing key goes to every queue with a matching pattern.
-- Patterns and keys are segments separated by dots. In a pattern, * matches one segment and # any number of segments.
-- Locks: the changed bindings, and as penstock.enqueue. Uses pgmq_binding_queue.

-- Raises PGMQ's errors for a routing key or a pattern that is not valid.
create or replace function pgmq._check_segments(what text, value text, allowed text, letters text) returns void
language plpgsql as $$
begin
  if value is null or value = '' then
    raise exception '% cannot be NULL or empty', what;
  elsif length(value) > 255 then
    raise exception '% length cannot exceed 255 characters, got % characters', what, length(value);
  elsif value !~ allowed then
    raise exception '% contains invalid characters. Only % are allowed. Got: %', what, letters, value;
  elsif value ^@ '.' then
    raise exception '% cannot start with a dot. Got: %', what, value;
  elsif right(value, 1) = '.' then
    raise exception '% cannot end with a dot. Got: %', what, value;
  elsif strpos(value, '..') > 0 then
    raise exception '% cannot contain consecutive dots. Got: %', what, value;
  end if;
end $$;

-- True, or an error that names what is wrong with the routing key.
create or replace function pgmq.validate_routing_key(routing_key text) returns boolean
language plpgsql immutable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq._check_segments('routing_key', routing_key, '^[a-zA-Z0-9._-]+$',
    'alphanumeric, dots, hyphens, and underscores');
  return true;
end $$;

-- True, or an error that names what is wrong with the pattern.
create or replace function pgmq.validate_topic_pattern(pattern text) returns boolean
language plpgsql immutable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq._check_segments('pattern', pattern, '^[a-zA-Z0-9._\-*#]+$',
    'alphanumeric, dots, hyphens, underscores, *, and #');
  if pattern ~ '[*#]{2}' then
    raise exception 'pattern cannot contain adjacent wildcards (**, ##, *# or #*). '
      'Separate wildcards with dots. Got: %', pattern;
  end if;
  return true;
end $$;

-- The bindings with the names of their queues. Locks: ACCESS SHARE. Scans the bindings, which are few.
create or replace view pgmq.topic_bindings as
select b.pattern, coalesce(p.name, q.name) as queue_name, b.bound_at, b.compiled_regex
from penstock.pgmq_binding b join penstock.queue q on q.id = b.queue_id left join penstock.pgmq_queue p
  on p.queue_id = q.id;

-- Binds a queue to a pattern. Binding it twice changes nothing. Locks: the new row. Uses pgmq_binding_pkey.
create or replace function pgmq.bind_topic(pattern text, queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq.validate_topic_pattern(pattern);
  if coalesce(queue_name, '') = '' then
    raise exception 'queue_name cannot be NULL or empty';
  end if;
  insert into penstock.pgmq_binding (pattern, queue_id) values (bind_topic.pattern, (pgmq._queue(queue_name)).id)
    on conflict do nothing;
end $$;

-- Removes a binding. True if there was one. Locks: the row of the binding. Uses pgmq_binding_pkey and queue_name_key.
create or replace function pgmq.unbind_topic(pattern text, queue_name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if coalesce(pattern, '') = '' then
    raise exception 'pattern cannot be NULL or empty';
  elsif coalesce(queue_name, '') = '' then
    raise exception 'queue_name cannot be NULL or empty';
  end if;
  delete from penstock.pgmq_binding b using penstock.queue q
  where b.pattern = unbind_topic.pattern and q.id = b.queue_id and q.name = lower(unbind_topic.queue_name);
  return found;
end $$;

-- Returns the bindings of all queues, or of one. Locks: ACCESS SHARE. Scans the bindings.
create or replace function pgmq.list_topic_bindings()
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select b.pattern, b.queue_name, b.bound_at, b.compiled_regex from pgmq.topic_bindings b order by b.bound_at desc,
    b.pattern, b.queue_name
$$;

create or replace function pgmq.list_topic_bindings(queue_name text)
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select b.pattern, b.queue_name, b.bound_at, b.compiled_regex from pgmq.topic_bindings b
  where lower(b.queue_name) = lower(list_topic_bindings.queue_name) order by b.bound_at desc, b.pattern
$$;

-- Returns the bindings that match a routing key. Locks: ACCESS SHARE. Scans the bindings.
create or replace function pgmq.test_routing(routing_key text)
returns table (pattern text, queue_name text, compiled_regex text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq.validate_routing_key(routing_key);
  return query select b.pattern, b.queue_name, b.compiled_regex from pgmq.topic_bindings b
    where routing_key ~ b.compiled_regex
               order by b.pattern, b.queue_name;
end $$;

-- Returns the queues that a message goes to, each once. Locks: ACCESS SHARE. Scans the bindings.
create or replace function pgmq._routed(routing_key text) returns setof text language plpgsql stable as $$
begin
  perform pgmq.validate_routing_key(routing_key);
  return query select distinct b.queue_name from pgmq.topic_bindings b where routing_key ~ b.compiled_regex
    order by b.queue_name;
end $$;

-- Sends a message to every queue with a matching binding, and returns how many there were. Locks and indexes: as send.
create or replace function pgmq.send_topic(routing_key text, msg jsonb, headers jsonb, delay integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  n integer;
begin
  if msg is null then
    raise exception 'msg cannot be NULL';
  elsif delay < 0 then
    raise exception 'delay cannot be negative, got: %', delay;
  end if;
  select count(sent) into n from pgmq._routed(routing_key) queue cross
    join pgmq.send(queue, msg, headers, coalesce(delay, 0)) sent;
  return n;
end $$;

create or replace function pgmq.send_topic(routing_key text, msg jsonb) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return pgmq.send_topic(routing_key, msg, null, 0);
end $$;

create or replace function pgmq.send_topic(routing_key text, msg jsonb, delay integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return pgmq.send_topic(routing_key, msg, null, delay);
end $$;

-- PGMQ has no such overload, but its Python client calls it. Locks and indexes: as send.
create or replace function pgmq.send_topic(routing_key text, msg jsonb, headers jsonb) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return pgmq.send_topic(routing_key, msg, headers, 0);
end $$;

-- Sends messages to every queue with a matching binding, and returns their ids. Locks and indexes: as send_batch.
create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[], delay timestamptz)
returns table (queue_name text, msg_id bigint) language plpgsql security definer set search_path = pg_catalog, pg_temp
  as $$
begin
  perform pgmq._check_batch(msgs, headers);
  return query select queue, sent from pgmq._routed(routing_key) queue cross
    join pgmq._send_batch(queue, msgs, headers, delay) sent;
end $$;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[])
returns table (queue_name text, msg_id bigint) language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq.send_batch_topic(routing_key, msgs, null, clock_timestamp())
$$;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[])
returns table (queue_name text, msg_id bigint) language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq.send_batch_topic(routing_key, msgs, headers, clock_timestamp())
$$;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay integer)
returns table (queue_name text, msg_id bigint) language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq.send_batch_topic(routing_key, msgs, null, clock_timestamp() + make_interval(secs => delay))
$$;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay timestamptz)
returns table (queue_name text, msg_id bigint) language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq.send_batch_topic(routing_key, msgs, null, delay)
$$;

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[], delay integer)
returns table (queue_name text, msg_id bigint) language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq.send_batch_topic(routing_key, msgs, headers, clock_timestamp() + make_interval(secs => delay))
$$;
