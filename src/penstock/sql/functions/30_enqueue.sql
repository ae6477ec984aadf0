-- The plain message, in one statement that finds the queue and inserts: half the cost of doing it in two. Returns null
-- where the queue or the message is not plain. The caller has checked everything about the message but its priority.
select penstock._for_each_segment($unroll$
create or replace function penstock._enqueue_{slot}(queue text, payload jsonb, priority integer) returns bigint language plpgsql as $$
#variable_conflict use_column
declare
  new_id bigint;
  turned boolean;
begin
  insert into penstock.lane_{slot} (id, position, enqueued_at, queue_id, priority, attempt, max_attempts, payload)
  select nextval('penstock.position'), currval('penstock.position'), clock_timestamp(), q.id, _enqueue_{slot}.priority, 0,
    q.max_attempts, _enqueue_{slot}.payload
  from penstock.queue q
  where q.name = _enqueue_{slot}.queue and q.plain_in and _enqueue_{slot}.priority = any (q.priorities)
    -- Does somebody wait? See 29_wake.sql.
    and case when pg_sequence_last_value(q.notify_register)::float8 <= date_part('epoch', clock_timestamp()) * float8 '1e6'
             then penstock._wake(q.notify_register, q.waiting_register, q.name, 'ready') else true end
  returning id, pg_sequence_last_value('penstock.ring') % bigint '10' <> bigint '{slot}' or id >= pg_sequence_last_value('penstock.ring_until')
  into new_id, turned;
  if turned then
    perform penstock._rotated({slot}, new_id);
  end if;
  return new_id;
end $$;
$unroll$);

-- Puts one message into a queue, in the caller's transaction. Returns its id; with on_conflict replace or skip, the
-- id of the waiting message that has the key.
-- Locks: ROW EXCLUSIVE on one segment; with a key or a group, the row of that key or group until commit; with
-- max_depth, the queue's depth lock until commit. Uses queue_name_key.
select penstock._unroll($unroll$
create or replace function penstock.enqueue(
  queue text, payload jsonb default null, payload_bytes bytea default null, headers jsonb default null, key text default null,
  priority integer default 0, group_key text default null, delay interval default null, visible_at timestamptz default null,
  ttl interval default null, max_attempts integer default null, on_conflict text default 'replace', unique_while text default 'waiting')
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  slot   integer := (pg_sequence_last_value('penstock.ring') % bigint '10')::integer;
  new_id bigint;
begin
  -- A message that is not plain is not inserted here. It goes the long way, where each thing is checked by name.
  if (enqueue.payload_bytes, enqueue.headers, enqueue.key, enqueue.group_key, enqueue.delay, enqueue.visible_at, enqueue.ttl,
      enqueue.max_attempts) is null
     and pg_column_size(enqueue.payload) <= 1000 and on_conflict = 'replace' and unique_while = 'waiting' then
    --[ slot
    new_id := penstock._enqueue_{slot}(enqueue.queue, enqueue.payload, enqueue.priority);
    --]
  end if;
  if new_id is null then
    return penstock._enqueue_checked(enqueue.queue, enqueue.payload, enqueue.payload_bytes, enqueue.headers, enqueue.key, enqueue.priority,
      enqueue.group_key, enqueue.delay, enqueue.visible_at, enqueue.ttl, enqueue.max_attempts, on_conflict, unique_while);
  end if;
  return new_id;
end $$;

-- A message was inserted while the ring turned, or is the one that makes it turn. Its segment may have been freed
-- between the look at the ring and the insert (whose lock from then on keeps it in the ring): then it is inserted again.
create or replace function penstock._rotated(slot integer, new_id bigint) returns void language plpgsql as $$
begin
  if not slot = any (penstock._used_slots()) then
    perform penstock._put_again(slot, new_id);
  end if;
  if new_id >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
end $$;

-- Moves a message that was just inserted into a segment that is not in the ring any more to the current one.
create or replace function penstock._put_again(slot integer, id bigint) returns void language plpgsql as $$
#variable_conflict use_column
declare
  m penstock.ready_0;
begin
  --[ slot
  delete from penstock.ready_{slot} r where r.id = _put_again.id returning * into m;
  --]
  perform penstock._put_ready((m.id, m.enqueued_at, m.expires_at, m.first_claimed_at, m.claimed_at, m.dead_at, m.queue_id, m.priority, m.attempt,
    m.max_attempts, m.body_slot, m.worker, m.key, m.group_key, m.headers, m.payload, m.payload_bytes, m.last_error)::penstock.envelope, m.position);
end $$;

-- Inserts a message into the current segment at a position.
create or replace function penstock._put_ready(m penstock.envelope, at_position bigint) returns void language plpgsql as $$
declare
  slot integer;
begin
  slot := penstock._hold_current();
  --[ slot
  insert into penstock.ready_{slot} select at_position, (m).*;
  --]
  if at_position >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
end $$;
$unroll$);
