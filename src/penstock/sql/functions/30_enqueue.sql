-- Puts one message into a queue, in the caller's transaction. Returns its id; with on_conflict replace or skip, the
-- id of the waiting message that has the key.
-- Locks until commit: ROW EXCLUSIVE on one segment; the queue's generation, shared; with a key, the row of that key; with
-- max_depth, the queue's depth lock, shared. With a group, the row of that group while the transaction commits. Uses queue_name_key.
select penstock._unroll($unroll$
create or replace function penstock.enqueue(
  queue text, payload jsonb default null, payload_bytes bytea default null, headers jsonb default null, key text default null,
  priority integer default 0, group_key text default null, delay interval default null, visible_at timestamptz default null,
  ttl interval default null, max_attempts integer default null, on_conflict text default 'replace', unique_while text default 'waiting')
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  slot       integer := (pg_sequence_last_value('penstock.ring') % bigint '10')::integer;
  -- How many generations have begun and are over; -1 in a transaction block (see _in_block). In one expression: each costs a microsecond.
  over       bigint := case when statement_timestamp() > transaction_timestamp() + interval '30 microseconds' or pg_current_xact_id_if_assigned() is not null
                            then bigint '-1' else pg_sequence_last_value('penstock.flips_over') end;
  new_id     bigint;
  lane_queue integer;
  special    boolean;
begin
  -- The plain message, in one statement that finds the queue and inserts: half the cost of doing it in two. A message that
  -- is not plain is not inserted here. It takes the longer path, where each thing is checked by name. A transaction block
  -- joins its generation and wakes waiters at commit: see 24_at_commit.sql. A statement in autocommit does both before it
  -- takes a position. It has joined the right generation if none has begun since.
  if (enqueue.payload_bytes, enqueue.headers, enqueue.key, enqueue.group_key, enqueue.delay, enqueue.visible_at, enqueue.ttl,
      enqueue.max_attempts) is null
     and pg_column_size(enqueue.payload) <= 1000 and on_conflict = 'replace' and unique_while = 'waiting' then
    --[ slot
    insert into penstock.lane_{slot} (id, position, enqueued_at, queue_id, priority, attempt, max_attempts, payload)
    select nextval('penstock.position'), currval('penstock.position'), clock_timestamp(), q.id, enqueue.priority, 0,
      q.max_attempts, enqueue.payload
    from penstock.queue q
    where q.name = enqueue.queue and q.plain_in and enqueue.priority = any (q.priorities)
      and (over < bigint '0'
           or pg_try_advisory_xact_lock_shared(1885695616 + (pg_sequence_last_value(q.generation_register) & bigint '7')::integer, q.id)
              and case when pg_sequence_last_value(q.notify_register)::float8 <= date_part('epoch', clock_timestamp()) * float8 '1e6'
                       then penstock._wake(q.notify_register, q.waiting_register, q.name, 'ready') else true end)
    returning id, queue_id, pg_sequence_last_value('penstock.flips_begun') <> over
      or pg_sequence_last_value('penstock.ring') % bigint '10' <> bigint '{slot}' or id >= pg_sequence_last_value('penstock.ring_until')
    into new_id, lane_queue, special;
    --]
  end if;
  if special is null then
    if enqueue.queue ^@ 'penstock.' then perform penstock._check_internal(enqueue.queue); end if;
    return penstock._enqueue_checked(enqueue.queue, enqueue.payload, enqueue.payload_bytes, enqueue.headers, enqueue.key, enqueue.priority,
      enqueue.group_key, enqueue.delay, enqueue.visible_at, enqueue.ttl, enqueue.max_attempts, on_conflict, unique_while);
  elsif special then
    perform penstock._put_special(slot, new_id, lane_queue, enqueue.priority, over < bigint '0');
  end if;
  return new_id;
end $$;

-- A message was put into a segment by a transaction block, or while the ring turned or a generation began, or it is the one that
-- makes the ring turn. Its segment may have been freed between the look at the ring and the insert (whose lock from then on
-- keeps it in the ring): then it is inserted again.
create or replace function penstock._put_special(slot integer, new_id bigint, queue_id integer, priority integer, in_block boolean) returns void language plpgsql as $$
begin
  if pg_sequence_last_value('penstock.ring') % 10 <> slot then
    if slot = any (penstock._used_slots()) then
      perform penstock._put_beside(slot, queue_id, priority);
    else
      perform penstock._put_again(slot, new_id);
    end if;
  elsif not in_block then
    perform penstock._announce_put(queue_id, priority, new_id);
  elsif strpos(coalesce(current_setting('penstock.announced', true), ''), ' ' || queue_id || '/' || priority || ' ') = 0 then
    perform penstock._announce_here(slot, queue_id, priority, new_id);
  end if;
  if new_id >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
end $$;

-- Announces a message that a transaction block has just put into a segment. Its lock on the segment is held already.
create or replace function penstock._announce_here(slot integer, queue_id integer, priority integer, at_position bigint) returns void language plpgsql as $$
begin
  --[ slot
  insert into penstock.bell_{slot} (rung_at, kind, queue_id, priority, position)
  select clock_timestamp(), 'put', _announce_here.queue_id, _announce_here.priority, at_position
  where set_config('penstock.announced', coalesce(current_setting('penstock.announced', true), '') || ' ' || _announce_here.queue_id || '/'
                   || _announce_here.priority || ' ', true) <> '';
  --]
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

-- Messages were put into a segment that is not the current one any more. Claims look there only if the segment is in use, and if the
-- floor of the lane is not in the current segment's share of positions.
create or replace function penstock._put_beside(slot integer, queue_id integer, priority integer) returns void language plpgsql as $$
begin
  if strpos(split_part(pg_sequence_last_value('penstock.ring')::text, '9', 2), slot::text) = 0 then
    perform penstock._reopen(slot::text);
  end if;
  perform penstock._forget_announcements(), penstock._announce_put(queue_id, priority, penstock._current_from());
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
  -- A new message of a statement in autocommit has joined its generation before it took its position.
  if at_position <> m.id or penstock._in_block() then
    perform penstock._announce_put(m.queue_id, m.priority, at_position);
  end if;
  if pg_sequence_last_value('penstock.ring') % 10 <> slot then
    perform penstock._put_beside(slot, m.queue_id, m.priority);
  end if;
  if at_position >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
end $$;
$unroll$);
