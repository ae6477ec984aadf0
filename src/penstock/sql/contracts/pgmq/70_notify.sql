-- NOTIFY on the channel pgmq.q_<queue>.INSERT when a message is sent, at most every throttle_interval_ms. The time of
-- the last notification is in a register. If it were in a row, senders would wait for each other until commit. Locks:
-- the row of the queue in pgmq_queue when notifications are turned on, changed or off.

-- Notifies the listeners of a queue, unless the last notification was too recent. Locks: none. Indexes: none.
create or replace function pgmq._notify(p penstock.pgmq_queue) returns void language plpgsql as $$
declare
  now_us bigint := date_part('epoch', clock_timestamp()) * 1e6;
begin
  if p.throttle_interval_ms > 0 then
    -- A clock that was put back does not stop notifications.
    if now_us - pg_sequence_last_value(p.notified_register) between 0 and p.throttle_interval_ms * 1000::bigint - 1 then
      return;
    end if;
  end if;
  perform setval(p.notified_register, now_us);
  perform pg_notify('pgmq.q_' || p.key || '.INSERT', null);
end $$;

-- Checks an interval, and returns the row of the queue in pgmq_queue, locked until commit. Uses pgmq_queue_pkey.
create or replace function pgmq._throttle(queue_name text, interval_ms integer) returns penstock.pgmq_queue
language plpgsql as $$
declare
  q penstock.queue := pgmq._queue(queue_name);
  p penstock.pgmq_queue;
begin
  if interval_ms < 0 or interval_ms is null then
    raise exception 'throttle_interval_ms must be non-negative, got: %', coalesce(interval_ms::text, 'null');
  end if;
  -- A queue that was created through another interface gets its PGMQ row and views.
  perform pgmq._create(coalesce((select t.name from penstock.pgmq_queue t where t.queue_id = q.id), queue_name), false,
    false);
  select * into p from penstock.pgmq_queue t where t.queue_id = q.id for no key update;
  return p;
end $$;

-- Turns notifications on. Locks: the row of the queue in pgmq_queue. Uses pgmq_queue_pkey.
create or replace function pgmq.enable_notify_insert(queue_name text, throttle_interval_ms integer default 250)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  p penstock.pgmq_queue := pgmq._throttle(queue_name, enable_notify_insert.throttle_interval_ms);
begin
  p.notified_register := coalesce(p.notified_register, penstock._register('pgmq_notified_' || p.queue_id));
  perform setval(p.notified_register, 0);
  update penstock.pgmq_queue t set throttle_interval_ms = enable_notify_insert.throttle_interval_ms,
    notified_register = p.notified_register
  where t.queue_id = p.queue_id;
end $$;

-- Changes the interval. Locks: the row of the queue in pgmq_queue. Uses pgmq_queue_pkey.
create or replace function pgmq.update_notify_insert(queue_name text, throttle_interval_ms integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  p penstock.pgmq_queue := pgmq._throttle(queue_name, update_notify_insert.throttle_interval_ms);
begin
  if p.throttle_interval_ms is null then
    raise exception 'Queue "%" does not have notify_insert enabled. Enable it first using pgmq.enable_notify_insert()',
      queue_name;
  end if;
  perform setval(p.notified_register, 0);
  update penstock.pgmq_queue t set throttle_interval_ms = update_notify_insert.throttle_interval_ms
    where t.queue_id = p.queue_id;
end $$;

-- Turns notifications off. Locks: the row of the queue in pgmq_queue. Uses pgmq_queue_pkey.
create or replace function pgmq.disable_notify_insert(queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update penstock.pgmq_queue t set throttle_interval_ms = null where t.queue_id = (pgmq._queue(queue_name)).id;
end $$;

-- The queues with notifications, and when each was last notified. Locks: ACCESS SHARE. Scans pgmq_queue.
create or replace view pgmq.notify_insert_throttle as
select p.name::varchar as queue_name, p.throttle_interval_ms,
  to_timestamp(pg_sequence_last_value(p.notified_register) / 1e6) as last_notified_at
from penstock.pgmq_queue p where p.throttle_interval_ms is not null;

-- Returns the rows of pgmq.notify_insert_throttle. Locks: ACCESS SHARE. Scans pgmq_queue.
create or replace function pgmq.list_notify_insert_throttles()
returns table (queue_name text, throttle_interval_ms integer, last_notified_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.queue_name, t.throttle_interval_ms, t.last_notified_at from pgmq.notify_insert_throttle t
    order by t.queue_name
$$;
