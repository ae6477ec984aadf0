-- Keys: at most one waiting message for each (queue, key). The row in message_key is the lock under which the waiting
-- message is looked for; where that message is, the message tables say themselves, so no key can point to nothing.

create or replace function penstock._lock_key(queue_id integer, key text) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  loop
    insert into penstock.message_key (queue_id, key, id) values (_lock_key.queue_id, _lock_key.key, 0) on conflict do nothing;
    exit when found;
    perform from penstock.message_key k where k.queue_id = _lock_key.queue_id and k.key = _lock_key.key for update;
    exit when found;
  end loop;
end $$;

create or replace function penstock._enqueue_keyed(q penstock.queue, m penstock.envelope, due timestamptz, on_conflict text, unique_while text)
returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  waiting bigint;
  expires timestamptz;
begin
  perform penstock._lock_key(q.id, m.key);
  loop
    select w.id, w.expires_at into waiting, expires from penstock._waiting_with_key(q.id, m.key) w;
    exit when waiting is null;
    if expires <= m.enqueued_at then
      -- Nobody will ever get it: what is put into it would be lost.
      perform penstock._remove_waiting(waiting, 'expired');
      continue;
    end if;
    if on_conflict = 'error' then
      perform penstock._fail_key(q.name, m.key, waiting, 'is waiting');
    elsif on_conflict = 'skip' then
      return waiting;
    end if;
    -- A claim may take it away in between: then there is none waiting any more, and we look again.
    if penstock._replace_waiting(q.id, m, waiting) then
      return waiting;
    end if;
  end loop;
  if unique_while = 'unfinished' then
    waiting := penstock._leased_with_key(q.id, m.key);
    if waiting is not null and on_conflict = 'error' then
      perform penstock._fail_key(q.name, m.key, waiting, 'is in work');
    elsif waiting is not null then
      return waiting;
    end if;
  end if;
  m.id := penstock._admit(q, m, due);
  update penstock.message_key k set id = m.id where k.queue_id = q.id and k.key = m.key;
  return m.id;
end $$;

create or replace function penstock._fail_key(queue text, key text, id bigint, what text) returns void language plpgsql as $$
begin
  perform penstock._fail('PS009', format('message %s with key %L %s in queue %L', id, key, what, queue),
    jsonb_build_object('queue', queue, 'key', key, 'id', id),
    'Nothing was enqueued. Use on_conflict => ''replace'' or ''skip'', another key, or wait until it is finished.');
end $$;

-- A finished message gives its key free. If an enqueuer holds the key's row, it decides what becomes of it: we do not wait.
create or replace function penstock._forget_key(queue_id integer, key text, id bigint) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  delete from penstock.message_key where ctid = any (array(
    select k.ctid from penstock.message_key k
    where k.queue_id = _forget_key.queue_id and k.key = _forget_key.key and k.id = _forget_key.id for update skip locked));
end $$;

select penstock._unroll($unroll$
-- The waiting message with a key, and when its time to live is over. One statement, so one snapshot: a message that is
-- moved to the attic meanwhile is seen in one place or the other.
create or replace function penstock._waiting_with_key(queue_id integer, key text, out id bigint, out expires_at timestamptz) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  select w.id, w.expires_at into _waiting_with_key.id, _waiting_with_key.expires_at from (
    select m.id, m.expires_at from penstock.scheduled m where m.queue_id = _waiting_with_key.queue_id and m.key = _waiting_with_key.key
    union all
    select m.id, m.expires_at from penstock.grouped m where m.queue_id = _waiting_with_key.queue_id and m.key = _waiting_with_key.key
    --[
    union all
    select m.id, m.expires_at from penstock.ready_{slot} m where m.queue_id = _waiting_with_key.queue_id and m.key = _waiting_with_key.key
    --]
    limit 1) w;
end $$;

-- Locks the waiting message with this id and key if nobody holds it. False if it is held, or not waiting any more.
create or replace function penstock._try_waiting(queue_id integer, key text, waiting bigint) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  perform from penstock.scheduled m where m.queue_id = _try_waiting.queue_id and m.key = _try_waiting.key and m.id = waiting for update skip locked;
  if found then return true; end if;
  perform from penstock.grouped m where m.queue_id = _try_waiting.queue_id and m.key = _try_waiting.key and m.id = waiting for update skip locked;
  if found then return true; end if;
  begin
    --[
    perform from penstock.ready_{slot} m where m.queue_id = _try_waiting.queue_id and m.key = _try_waiting.key and m.id = waiting for update skip locked;
    if found then return true; end if;
    --]
    raise sqlstate 'PS001';
  exception when sqlstate 'PS001' then  -- and the lock on a message that was claimed meanwhile is given back: see 39_pick.sql
    return false;
  end;
end $$;

create or replace function penstock._leased_with_key(queue_id integer, key text) returns bigint language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  return (select w.id from (
    select null::bigint as id where false
    --[
    union all
    select l.id from penstock.leased_{slot} l
    where l.queue_id = _leased_with_key.queue_id and l.watched and l.key = _leased_with_key.key and l.dead_at is null
    union all
    select l.id from penstock.lane_{slot} l where l.queue_id = _leased_with_key.queue_id and l.key = _leased_with_key.key and l.hold <> 0
    --]
    limit 1) w);
end $$;

-- Gives the waiting message with this id and key the payload and headers of m. False if it is not waiting any more.
create or replace function penstock._replace_waiting(queue_id integer, m penstock.envelope, waiting bigint) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  old_body smallint;
begin
  m.id := waiting;
  select body_slot into old_body from penstock.scheduled w where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting for update;
  if found then
    m := penstock._swap_body(m, old_body);
    update penstock.scheduled w set payload = m.payload, payload_bytes = m.payload_bytes, headers = m.headers, body_slot = m.body_slot
    where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting;
    return true;
  end if;
  select body_slot into old_body from penstock.grouped w where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting for update;
  if found then
    m := penstock._swap_body(m, old_body);
    update penstock.grouped w set payload = m.payload, payload_bytes = m.payload_bytes, headers = m.headers, body_slot = m.body_slot
    where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting;
    return true;
  end if;
  begin
    --[
    select body_slot into old_body from penstock.ready_{slot} w where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting for update;
    if found then
      m := penstock._swap_body(m, old_body);
      update penstock.ready_{slot} w set payload = m.payload, payload_bytes = m.payload_bytes, headers = m.headers, body_slot = m.body_slot
      where w.queue_id = _replace_waiting.queue_id and w.key = m.key and w.id = waiting;
      return true;
    end if;
    --]
    raise sqlstate 'PS001';
  exception when sqlstate 'PS001' then
    return false;
  end;
end $$;
$unroll$);

create or replace function penstock._swap_body(m penstock.envelope, old_body smallint) returns penstock.envelope language plpgsql as $$
begin
  if old_body is not null then
    perform penstock._drop_body(old_body, m.id);
  end if;
  return penstock._store_body(m);
end $$;
