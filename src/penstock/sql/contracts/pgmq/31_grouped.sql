-- Reading by group. The header x-pgmq-group is the group of a message, and messages without the header form one group.
-- A group can be read when its first message is visible. As in PGMQ, all messages of the queue are read. Locks: ACCESS
-- SHARE, and those of _read_groups.

-- Returns every message of a queue with its group and the time from which it is visible. Locks: ACCESS SHARE. Uses
-- scheduled_queue, and scans the segments.
create or replace function pgmq._fifo(queue_id integer) returns table (id bigint, fifo_key text, vt timestamptz)
language plpgsql as $$
#variable_conflict use_column
begin
  return query
  select w.id, coalesce(w.headers ->> 'x-pgmq-group', '_default_fifo_group'), w.vt
  from (
    select s.id, s.headers, s.due_at as vt from penstock.scheduled s where s.queue_id = _fifo.queue_id
      and s.group_key is null
    --: for each segment
    union all
    select r.id, r.headers, '-infinity' from penstock.ready_{slot} r where r.queue_id = _fifo.queue_id
      and r.group_key is null
    union all
    select l.id, l.headers, l.lease_until from penstock.leased_{slot} l where l.queue_id = _fifo.queue_id
      and l.dead_at is null
    union all
    select h.id, h.headers, h.lease_until from penstock.held_{slot} h where h.queue_id = _fifo.queue_id
    --: end
  ) w;
end $$;

-- Returns the position of each readable message in the result. style: grouped (all of the first group, then the next
-- group), rr (the first of each group, then the second of each), head (the first of each).
create or replace function pgmq._turns(queue_id integer, style text, wanted integer)
returns table (id bigint, fifo_key text) language sql as $$
  with m as materialized (
    select f.id, f.fifo_key, f.vt <= clock_timestamp() as visible from pgmq._fifo(_turns.queue_id) f),
  first as (
    select m.fifo_key, min(m.id) as id from m group by m.fifo_key),
  eligible as (
    select f.fifo_key, f.id as head from first f join m on m.id = f.id where m.visible),
  ranked as (
    select m.id, m.fifo_key, e.head, row_number() over (partition by m.fifo_key order by m.id) as rank
    from m join eligible e using (fifo_key) where m.visible)
  select r.id, r.fifo_key from ranked r
  where r.rank <= case when style = 'head' then 1 else wanted end
  order by case when style = 'rr' then r.rank end, r.head, r.rank
$$;

-- Reads from groups. A reader locks a group with an advisory lock until commit, so that two readers do not share a
-- group. If the next message of a group was taken, the reader skips the rest of the group, because another reader is
-- ahead in it.
create or replace function pgmq._read_groups(queue_name text, vt integer, qty integer, style text)
returns setof pgmq.message_record language plpgsql as $$
declare
  q      penstock.queue := pgmq._queue(queue_name);
  wanted integer;
  n      integer := 0;
  t      record;
  lost   text[] := '{}';
  mine   text[] := '{}';
  r      pgmq.message_record;
begin
  if _read_groups.vt is null then
    perform penstock._fail_value('vt', null, 'a number of seconds');
  end if;
  if q.paused or coalesce(qty, 1) <= 0 then
    return;
  end if;
  perform penstock._run_timers(q.id, 10000);
  wanted := penstock._allowance(q, coalesce(qty, 10000));
  for t in select * from pgmq._turns(q.id, style, wanted) loop
    exit when n >= wanted;
    continue when t.fifo_key = any (lost);
    if t.fifo_key <> all (mine) then
      if not pg_try_advisory_xact_lock(hashtextextended('pgmq group ' || q.id || ' ' || t.fifo_key, 0)) then
        lost := lost || t.fifo_key;
        continue;
      end if;
      mine := mine || t.fifo_key;
    end if;
    r := pgmq._take_one(q, t.id, _read_groups.vt);
    if r.msg_id is null then
      lost := lost || t.fifo_key;
    else
      n := n + 1;
      return next r;
    end if;
  end loop;
  if q.throughput_limit is not null and n < wanted then
    perform penstock._spend(q, n - wanted);
  end if;
end $$;

-- Reads from groups, and tries again until it gets a message or max_poll_seconds have passed. Locks and indexes: as
-- _read_groups.
create or replace function pgmq._poll_groups(queue_name text, vt integer, qty integer, max_poll_seconds integer,
  poll_interval_ms integer, style text)
returns setof pgmq.message_record language plpgsql as $$
declare
  stop_at timestamptz := clock_timestamp() + make_interval(secs => max_poll_seconds);
begin
  -- A clock that is put back during the poll ends the poll too.
  while clock_timestamp() between stop_at - make_interval(secs => max_poll_seconds) and stop_at loop
    return query select * from pgmq._read_groups(queue_name, _poll_groups.vt, qty, style);
    exit when found;
    perform pg_sleep(poll_interval_ms / 1000.0);
  end loop;
end $$;

-- PGMQ's names for the three styles, with and without a poll. read_grouped: as many messages as possible of the first
-- group. Locks and indexes: as _read_groups.
create or replace function pgmq.read_grouped(queue_name text, vt integer, qty integer) returns setof pgmq.message_record
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq._read_groups(queue_name, vt, qty, 'grouped')
$$;

-- One message of each group in turn. Locks and indexes: as _read_groups.
create or replace function pgmq.read_grouped_rr(queue_name text, vt integer, qty integer)
returns setof pgmq.message_record
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq._read_groups(queue_name, vt, qty, 'rr')
$$;

-- The first message of each group. Locks and indexes: as _read_groups.
create or replace function pgmq.read_grouped_head(queue_name text, vt integer, qty integer)
returns setof pgmq.message_record
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq._read_groups(queue_name, vt, qty, 'head')
$$;

-- As read_grouped, with a poll. Locks and indexes: as _read_groups.
create or replace function pgmq.read_grouped_with_poll(
  queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100)
returns setof pgmq.message_record language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq._poll_groups(queue_name, vt, qty, max_poll_seconds, poll_interval_ms, 'grouped')
$$;

-- As read_grouped_rr, with a poll. Locks and indexes: as _read_groups.
create or replace function pgmq.read_grouped_rr_with_poll(
  queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100)
returns setof pgmq.message_record language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq._poll_groups(queue_name, vt, qty, max_poll_seconds, poll_interval_ms, 'rr')
$$;

-- As read_grouped_head, with a poll. Locks and indexes: as _read_groups.
create or replace function pgmq.read_grouped_head_with_poll(
  queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100)
returns setof pgmq.message_record language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from pgmq._poll_groups(queue_name, vt, qty, max_poll_seconds, poll_interval_ms, 'head')
$$;
