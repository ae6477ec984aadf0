-- Discards the waiting messages of a queue (the leased ones too, on request), or its dead letters: '<queue>.dlq'; at most
-- max_count of them. They leave their history as cancelled. Returns how many. Uses the queue's index where there is one, else scans.
select penstock._unroll($unroll$
create or replace function penstock.purge(name text, include_leased boolean default false, max_count bigint default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q    penstock.queue;
  l    penstock.leased_0;
  dead boolean := purge.name ~ '\.dlq$';
  n    bigint := 0;
  now_at timestamptz := clock_timestamp();
begin
  if max_count < 0 then
    perform penstock._fail_value('max_count', max_count::text, '0 or more');
  end if;
  select * into q from penstock.queue t where t.name = regexp_replace(purge.name, '\.dlq$', '');
  if not found then
    perform penstock._fail_unknown_queue(purge.name);
  end if;
  if dead then
    with gone as (
      delete from penstock.dead where ctid = any (array(
        select m.ctid from penstock.dead m where m.queue_id = q.id limit max_count - n)) returning *),
    ended as (select penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority, g.attempt,
      g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error)::penstock.envelope, 'cancelled', null) from gone g)
    select count(*) into n from ended;
    return n;
  end if;
  with gone as (
    delete from penstock.scheduled where ctid = any (array(
      select m.ctid from penstock.scheduled m where m.queue_id = q.id and m.group_key is null limit max_count - n)) returning *),
  ended as (select penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority, g.attempt,
    g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error)::penstock.envelope, 'cancelled', null) from gone g)
  select count(*) into n from ended;
  with gone as (
    delete from penstock.grouped where ctid = any (array(
      select m.ctid from penstock.grouped m where m.queue_id = q.id limit max_count - n)) returning *),
  ended as (select penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority, g.attempt,
    g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error)::penstock.envelope, 'cancelled', null) from gone g)
  select n + count(*) into n from ended;
  -- A group's ticket may wait for a delayed message that is gone: it looks again.
  update penstock.scheduled m set due_at = now_at where m.queue_id = q.id and m.group_key is not null and m.due_at > now_at;
  --[
  with gone as (
    delete from penstock.lane_{slot} where ctid = any (array(
      select m.ctid from penstock.lane_{slot} m where m.queue_id = q.id and m.group_key is null and m.hold = 0 limit max_count - n))
      and hold = 0  -- still, if a claim was faster
    returning *),
  ended as (select penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority, g.attempt,
    g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error)::penstock.envelope, 'cancelled', null) from gone g)
  select n + count(*) into n from ended;
  --]
  if include_leased then
    --[
    for l in delete from penstock.held_{slot} where place = any (array(
        select t.place from penstock.held_{slot} t where t.queue_id = q.id limit max_count - n for update)) returning {leased} loop
      perform penstock._finish(penstock._envelope(l), 'cancelled', null);
      n := n + 1;
    end loop;
    for l in delete from penstock.leased_{slot} where ctid = any (array(
        select t.ctid from penstock.leased_{slot} t where t.queue_id = q.id and t.dead_at is null limit max_count - n for update)) returning * loop
      perform penstock._finish(penstock._envelope(l), 'cancelled', null);
      if l.group_key is not null then
        perform penstock._issue_ticket(l.queue_id, l.group_key, l.position);
      end if;
      n := n + 1;
    end loop;
    --]
  end if;
  return n;
end $$;

-- Removes a queue with all it holds; its history stays until it is too old. Refused while there are messages or
-- schedules, unless forced. Returns how many messages were discarded.
create or replace function penstock.drop_queue(name text, force boolean default false) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q        penstock.queue;
  n        bigint;
  register regclass;
begin
  select * into q from penstock.queue t where t.name = drop_queue.name for update;
  if not found then
    perform penstock._fail_unknown_queue(drop_queue.name);
  end if;
  n := penstock._depth(q.id, 1000000000) + (select count(*) from penstock.dead d where d.queue_id = q.id)
    + (select count(*) from penstock._dead_leases(q.id));
  if n > 0 and not force then
    perform penstock._fail('PS011', format('queue %L holds %s messages', q.name, n), jsonb_build_object('queue', q.name, 'count', n),
      'Purge it first, or drop it with force => true.');
  end if;
  if exists (select from penstock.schedule s where s.queue_id = q.id) and not force then
    perform penstock._fail('PS011', format('queue %L has schedules: %s', q.name,
        (select string_agg(s.name, ', ' order by s.name) from penstock.schedule s where s.queue_id = q.id)), jsonb_build_object('queue', q.name, 'count', n),
      'Drop them first, or drop the queue with force => true.');
  end if;
  delete from penstock.schedule s where s.queue_id = q.id;
  delete from penstock.scheduled t where t.queue_id = q.id;
  delete from penstock.grouped t where t.queue_id = q.id;
  delete from penstock.message_group t where t.queue_id = q.id;
  delete from penstock.message_key t where t.queue_id = q.id;
  delete from penstock.dead t where t.queue_id = q.id;
  --[
  delete from penstock.body_{slot} b where b.id in (
    select id from penstock.lane_{slot} t where t.queue_id = q.id and t.body_slot is not null
    union all select id from penstock.leased_{slot} t where t.queue_id = q.id and t.body_slot is not null);
  delete from penstock.lane_{slot} t where t.queue_id = q.id;
  delete from penstock.leased_{slot} t where t.queue_id = q.id;
  --]
  -- After the leases: a transaction that archives one of them has ended by now.
  delete from penstock.pgmq_archive t where t.queue_id = q.id;
  delete from penstock.queue t where t.id = q.id;
  foreach register in array q.floors || q.sweep_register || q.rescan_register || q.generation_register || q.mark_register
      || q.settled_register || q.lanes_register || q.first_row_register || q.first_row_xid_register || q.throughput_register || q.depth_register || q.notify_register || q.waiting_register loop
    if register is not null then
      execute format('drop sequence %s', register);
    end if;
  end loop;
  return n;
end $$;

create or replace function penstock._dead_leases(queue_id integer) returns setof bigint language plpgsql as $$
#variable_conflict use_column
begin
  --[
  return query select id from penstock.leased_{slot} l where l.queue_id = _dead_leases.queue_id and l.dead_at is not null;
  --]
end $$;
$unroll$);
