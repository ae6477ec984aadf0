-- Sending. Every overload is written out, because each nested function call costs some microseconds. Locks and indexes:
-- as penstock.enqueue and enqueue_many.

-- Counts the messages that are being sent, and notifies listeners. Always returns true, so that it can be used in an
-- assignment, which is evaluated in place. PERFORM would run a query, which takes ten times as long. Locks: none. Uses
-- pgmq_queue_pkey.
create or replace function pgmq._sent(queue_name text, n integer) returns boolean language plpgsql as $$
declare
  register regclass;
  throttle integer;
  counted  bigint;
begin
  select p.sent_register, p.throttle_interval_ms, nextval(p.sent_register) into register, throttle, counted
  from penstock.pgmq_queue p where p.key = lower(queue_name);
  if counted is not null then
    for i in 2 .. n loop
      counted := nextval(register);
    end loop;
    if throttle is not null then
      perform pgmq._notify(p) from penstock.pgmq_queue p where p.key = lower(queue_name);
    end if;
  end if;
  return true;
end $$;

-- Returns the time at which a message becomes visible, or null for at once.
create or replace function pgmq._later(delay timestamptz) returns timestamptz language sql volatile as $$
  select case when delay > clock_timestamp() then delay end
$$;

-- Sends a message, and returns its id. headers and delay are optional. Locks and indexes: as penstock.enqueue.
create or replace function pgmq.send(queue_name text, msg jsonb) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  counted boolean;
begin
  return next penstock.enqueue(lower(queue_name), coalesce(msg, 'null'));
  counted := pgmq._sent(queue_name, 1);
end $$;

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  counted boolean;
begin
  return next penstock.enqueue(lower(queue_name), coalesce(msg, 'null'), headers => headers);
  counted := pgmq._sent(queue_name, 1);
end $$;

create or replace function pgmq.send(queue_name text, msg jsonb, delay integer) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  counted boolean;
begin
  return next penstock.enqueue(lower(queue_name), coalesce(msg, 'null'),
    visible_at => pgmq._later(clock_timestamp() + make_interval(secs => delay)));
  counted := pgmq._sent(queue_name, 1);
end $$;

create or replace function pgmq.send(queue_name text, msg jsonb, delay timestamptz) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  counted boolean;
begin
  return next penstock.enqueue(lower(queue_name), coalesce(msg, 'null'), visible_at => pgmq._later(delay));
  counted := pgmq._sent(queue_name, 1);
end $$;

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay integer) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  counted boolean;
begin
  return next penstock.enqueue(lower(queue_name), coalesce(msg, 'null'), headers => headers,
                               visible_at => pgmq._later(clock_timestamp() + make_interval(secs => delay)));
  counted := pgmq._sent(queue_name, 1);
end $$;

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay timestamptz) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  counted boolean;
begin
  return next penstock.enqueue(lower(queue_name), coalesce(msg, 'null'), headers => headers,
    visible_at => pgmq._later(delay));
  counted := pgmq._sent(queue_name, 1);
end $$;

-- Refuses an empty batch, and headers whose number differs from that of the messages.
create or replace function pgmq._check_batch(msgs jsonb[], headers jsonb[]) returns void language plpgsql as $$
begin
  if msgs is null or cardinality(msgs) = 0 then
    raise exception 'msgs cannot be NULL or empty';
  elsif cardinality(headers) <> cardinality(msgs) then
    raise exception 'headers array length (%) must match msgs array length (%)', cardinality(headers),
      cardinality(msgs);
  end if;
end $$;

-- Sends messages in portions of 10,000, the most that enqueue_many takes. Locks and indexes: as penstock.enqueue_many.
create or replace function pgmq._send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz)
returns setof bigint language plpgsql as $$
declare
  piece constant integer := {limit.messages};
  due   timestamptz := pgmq._later(delay);
  first integer := 1;
  n     integer;
begin
  perform pgmq._check_batch(msgs, headers);
  while first <= cardinality(msgs) loop
    n := least(piece, cardinality(msgs) - first + 1);
    return query select * from penstock.enqueue_many(lower(queue_name),
      case when array_position(msgs, null) is null then msgs[first : first + n - 1]
           else array(select coalesce(m, 'null') from unnest(msgs[first : first + n - 1]) m) end,
      headers => headers[first : first + n - 1],
      visible_ats => case when due is not null then array_fill(due, array[n]) end);
    first := first + n;
  end loop;
  perform pgmq._sent(queue_name, cardinality(msgs));
end $$;

-- Sends messages, all or nothing, and returns their ids. Locks and indexes: as penstock.enqueue_many.
create or replace function pgmq.send_batch(queue_name text, msgs jsonb[]) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  counted boolean;
begin
  if cardinality(msgs) between 1 and {limit.messages} and array_position(msgs, null) is null then
    return query select * from penstock.enqueue_many(lower(queue_name), msgs);
    counted := pgmq._sent(queue_name, cardinality(msgs));
  else
    return query select * from pgmq._send_batch(queue_name, msgs, null, null);
  end if;
end $$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[]) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq._send_batch(queue_name, msgs, headers, null);
end $$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay integer) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq._send_batch(queue_name, msgs, null, clock_timestamp() + make_interval(secs => delay));
end $$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay timestamptz) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq._send_batch(queue_name, msgs, null, delay);
end $$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay integer)
returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq._send_batch(queue_name, msgs, headers,
    clock_timestamp() + make_interval(secs => delay));
end $$;

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz)
returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq._send_batch(queue_name, msgs, headers, delay);
end $$;
