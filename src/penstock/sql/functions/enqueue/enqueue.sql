-- Puts one message into a queue, in the transaction of the caller. Returns its id; with on_conflict replace or skip,
-- the id of the waiting message that has the key.
-- Locks until commit: ROW EXCLUSIVE on one segment; the generation of the queue, shared; with a key, the row of that
-- key; with max_depth, the depth lock of the queue, shared; with a group, the row of that group during the commit. Uses
-- queue_name_key.
create or replace function penstock.enqueue(
  queue text, payload jsonb default null, payload_bytes bytea default null, headers jsonb default null,
    key text default null,
  priority integer default 0, group_key text default null, delay interval default null,
    visible_at timestamptz default null,
  ttl interval default null, max_attempts integer default null, on_conflict text default 'replace',
    unique_while text default 'waiting')
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  slot       integer := ({ring.current({ring.value})})::integer;
  -- How many generations have begun and are over; -1 in a transaction block (see _in_block). In one expression: each
  -- costs a microsecond.
  over       bigint := case when statement_timestamp() > transaction_timestamp() + {timing.block}
    or pg_current_xact_id_if_assigned() is not null
                            then bigint '-1' else {register.value('penstock.flips_over')} end;
  new_id     bigint;
  lane_queue integer;
  special    boolean;
begin
  -- A plain message takes one statement that finds the queue and inserts, at half the cost of two statements. Any other
  -- message takes the long path, which checks each argument by name. A transaction block joins its generation and wakes
  -- waiters at commit: see background/run_deferred.sql. A statement in autocommit does both before it takes a position.
  -- It has joined the right generation if none has begun since. A queue with plain_in takes payloads of 8192 bytes at
  -- least. A payload with a number such as 1e131000 is small as it is stored and large as text.
  if (enqueue.payload_bytes, enqueue.headers, enqueue.key, enqueue.group_key, enqueue.delay, enqueue.visible_at,
      enqueue.ttl, enqueue.max_attempts) is null
     and pg_column_size(enqueue.payload) <= {payload.inline_bytes}
     and octet_length(enqueue.payload::text) <= {payload.inline_text_bytes}
     and on_conflict = 'replace' and unique_while = 'waiting' then
    --: branch on slot
    insert into penstock.lane_{slot} (id, position, enqueued_at, queue_id, priority, attempt, max_attempts, payload)
    select nextval('penstock.position'), currval('penstock.position'), clock_timestamp(), q.id, enqueue.priority, 0,
      q.max_attempts, enqueue.payload
    from penstock.queue q
    where q.name = enqueue.queue and q.plain_in and enqueue.priority = any (q.priorities)
      and (over < bigint '0'
           or pg_try_advisory_xact_lock_shared({lock.generation}
             + {generation.current({register.value(q.generation_register)})}::integer, q.id)
              and case when pg_sequence_last_value(q.notify_register)::float8
                <= date_part('epoch', clock_timestamp()) * float8 '1e6'
                       then penstock._wake(q.notify_register, q.waiting_register, q.name, 'ready') else true end)
    returning id, queue_id, {register.value('penstock.flips_begun')} <> over
      or {ring.current({ring.value})} <> bigint '{slot}' or id >= pg_sequence_last_value('penstock.ring_until')
    into new_id, lane_queue, special;
    --: end
  end if;
  if special is null then
    if enqueue.queue ^@ 'penstock.' then perform penstock._check_internal(enqueue.queue); end if;
    return penstock._enqueue_checked(enqueue.queue, enqueue.payload, enqueue.payload_bytes, enqueue.headers,
      enqueue.key, enqueue.priority, enqueue.group_key, enqueue.delay, enqueue.visible_at, enqueue.ttl,
      enqueue.max_attempts, on_conflict, unique_while);
  elsif special then
    perform penstock._put_special(slot, new_id, lane_queue, enqueue.priority, over < bigint '0');
  end if;
  return new_id;
end $$;
