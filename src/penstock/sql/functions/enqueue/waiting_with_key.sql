-- Find, lock or replace the waiting message that has a key. Locks until commit: the message that is locked or replaced.
-- Use scheduled_key, grouped_key, lane_N_key and leased_N_watched.
create or replace function penstock._waiting_with_key(queue_id integer, key text, out id bigint,
  out expires_at timestamptz) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  select w.id, w.expires_at into _waiting_with_key.id, _waiting_with_key.expires_at from (
    select m.id, m.expires_at from penstock.scheduled m where m.queue_id = _waiting_with_key.queue_id
      and m.key = _waiting_with_key.key
    union all
    select m.id, m.expires_at from penstock.grouped m where m.queue_id = _waiting_with_key.queue_id
      and m.key = _waiting_with_key.key
    --: for each segment
    union all
    select m.id, m.expires_at from penstock.ready_{slot} m where m.queue_id = _waiting_with_key.queue_id
      and m.key = _waiting_with_key.key
    --: end
    limit 1) w;
end $$;

-- Locks the waiting message with this id and key. False if another transaction has locked it, or it is not waiting.
-- Locks: the message until commit, with SKIP LOCKED. Uses scheduled_key, grouped_key and lane_N_key.
create or replace function penstock._try_waiting(queue_id integer, key text, waiting bigint) returns boolean
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  perform from penstock.scheduled m where m.queue_id = _try_waiting.queue_id and m.key = _try_waiting.key
    and m.id = waiting for update skip locked;
  if found then return true; end if;
  perform from penstock.grouped m where m.queue_id = _try_waiting.queue_id and m.key = _try_waiting.key
    and m.id = waiting for update skip locked;
  if found then return true; end if;
  begin
    --: for each segment
    perform from penstock.ready_{slot} m where m.queue_id = _try_waiting.queue_id and m.key = _try_waiting.key
      and m.id = waiting for update skip locked;
    if found then return true; end if;
    --: end
    raise sqlstate {sqlstate.undo};
  -- releases the lock on a message that was claimed meanwhile: see claim/pick.sql
  exception when sqlstate {sqlstate.undo} then
    return false;
  end;
end $$;

-- Returns the id of a leased message with the key. Locks: ACCESS SHARE. Uses leased_N_watched and lane_N_key.
create or replace function penstock._leased_with_key(queue_id integer, key text) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  return (select w.id from (
    select null::bigint as id where false
    --: for each segment
    union all
    select l.id from penstock.leased_{slot} l
    where l.queue_id = _leased_with_key.queue_id and l.watched and l.key = _leased_with_key.key and l.dead_at is null
    union all
    select l.id from penstock.lane_{slot} l where l.queue_id = _leased_with_key.queue_id
      and l.key = _leased_with_key.key and l.hold <> 0
    --: end
    limit 1) w);
end $$;

-- Gives the waiting message with this id and key the payload and headers of m. False if it is no longer waiting.
-- Locks: the message until commit. Uses scheduled_key, grouped_key and lane_N_key.
create or replace function penstock._replace_waiting(queue_id integer, m penstock.envelope, waiting bigint)
returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  old_body smallint;
begin
  m.id := waiting;
  select body_slot into old_body from penstock.scheduled w where w.queue_id = _replace_waiting.queue_id
    and w.key = m.key and w.id = waiting for update;
  if found then
    m := penstock._swap_body(m, old_body);
    update penstock.scheduled w set payload = m.payload, payload_bytes = m.payload_bytes, headers = m.headers,
      body_slot = m.body_slot
    where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting;
    return true;
  end if;
  select body_slot into old_body from penstock.grouped w where w.queue_id = _replace_waiting.queue_id and w.key = m.key
    and w.id = waiting for update;
  if found then
    m := penstock._swap_body(m, old_body);
    update penstock.grouped w set payload = m.payload, payload_bytes = m.payload_bytes, headers = m.headers,
      body_slot = m.body_slot
    where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting;
    return true;
  end if;
  begin
    --: for each segment
    select body_slot into old_body from penstock.ready_{slot} w where w.queue_id = _replace_waiting.queue_id
      and w.key = m.key and w.id = waiting for update;
    if found then
      m := penstock._swap_body(m, old_body);
      update penstock.ready_{slot} w set payload = m.payload, payload_bytes = m.payload_bytes, headers = m.headers,
        body_slot = m.body_slot
      where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting;
      return true;
    end if;
    --: end
    raise sqlstate {sqlstate.undo};
  exception when sqlstate {sqlstate.undo} then
    return false;
  end;
end $$;
