-- Keys: at most one waiting message for each queue and key. The row in message_key is the lock under which an enqueue
-- looks for the waiting message. The message tables say where that message is, so no key can point to a missing
-- message. _lock_key locks a key.
-- Locks: the row of the key until commit. Uses message_key_pkey.
create or replace function penstock._lock_key(queue_id integer, key text) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  loop
    insert into penstock.message_key (queue_id, key, id) values (_lock_key.queue_id, _lock_key.key, 0)
      on conflict do nothing;
    exit when found;
    perform from penstock.message_key k where k.queue_id = _lock_key.queue_id and k.key = _lock_key.key for update;
    exit when found;
  end loop;
end $$;

-- Enqueues a message with a key: replaces the waiting message with that key, skips, or raises PS009. Locks until
-- commit: the row of the key, and the message that is replaced, otherwise as _admit. Uses message_key_pkey.
create or replace function penstock._enqueue_keyed(q penstock.queue, m penstock.envelope, due timestamptz,
  on_conflict text, unique_while text)
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
      -- It is expired and will never be delivered: a new payload would be lost.
      perform penstock._remove_waiting(waiting, 'expired');
      continue;
    end if;
    if on_conflict = 'error' then
      perform penstock._fail_key(q.name, m.key, waiting, 'is waiting');
    elsif on_conflict = 'skip' then
      return waiting;
    end if;
    -- A claim may take it in between. Then no message is waiting, and we look again.
    if penstock._replace_waiting(q.id, m, waiting) then
      return waiting;
    end if;
  end loop;
  if unique_while = 'unfinished' then
    waiting := penstock._leased_with_key(q.id, m.key);
    if waiting is not null and on_conflict = 'error' then
      perform penstock._fail_key(q.name, m.key, waiting, 'is leased');
    elsif waiting is not null then
      return waiting;
    end if;
  end if;
  m.id := penstock._admit(q, m, due);
  update penstock.message_key k set id = m.id where k.queue_id = q.id and k.key = m.key;
  return m.id;
end $$;

-- PS009: another message has the key.
create or replace function penstock._fail_key(queue text, key text, id bigint, what text) returns void language plpgsql
  as $$
begin
  perform penstock._fail('PS009', format('message %s with key %L %s in queue %L', id, key, what, queue),
    jsonb_build_object('queue', queue, 'key', key, 'id', id),
    'Nothing was enqueued. Use on_conflict => ''replace'' or ''skip'', another key, or wait until it is finished.');
end $$;

-- Deletes the row of the key of a finished message. If an enqueuer has locked the row, it is left to the enqueuer.
-- Locks: the row of the key, with SKIP LOCKED. Uses message_key_pkey.
create or replace function penstock._forget_key(queue_id integer, key text, id bigint) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  delete from penstock.message_key where ctid = any (array(
    select k.ctid from penstock.message_key k
    where k.queue_id = _forget_key.queue_id and k.key = _forget_key.key and k.id = _forget_key.id
      for update skip locked));
end $$;

-- A message with a key becomes ready again. If another message with the key is waiting, the older of the two is
-- superseded. Returns the state of this message, or null if it may wait. Locks until commit: the row of the key, and
-- the message that is superseded. Uses message_key_pkey.
create or replace function penstock._yield_key(m penstock.envelope, key_wait text) returns text language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  waiting bigint;
  expires timestamptz;
begin
  if key_wait = 'wait' then
    perform penstock._lock_key(m.queue_id, m.key);
  end if;
  loop
    select w.id, w.expires_at into waiting, expires from penstock._waiting_with_key(m.queue_id, m.key) w;
    if waiting is null then
      update penstock.message_key k set id = m.id where k.queue_id = m.queue_id and k.key = m.key;
      if not found then
        insert into penstock.message_key (queue_id, key, id) values (m.queue_id, m.key, m.id);
      end if;
      return null;
    elsif expires <= clock_timestamp() then
      perform penstock._remove_waiting(waiting, 'expired');
    elsif waiting > m.id then
      return 'superseded';
    else
      perform penstock._remove_waiting(waiting, 'superseded');
    end if;
  end loop;
end $$;
