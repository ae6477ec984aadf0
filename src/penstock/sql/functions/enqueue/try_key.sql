-- _try_key locks a key for a message that becomes ready again, without waiting. False if another transaction holds the
-- key, or the older waiting message that would have to yield.
-- Locks until commit: the row of the key and that waiting message, both with SKIP LOCKED. Uses message_key_pkey.
create or replace function penstock._try_key(queue_id integer, key text, id bigint) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  waiting bigint;
begin
  perform from penstock.message_key k where k.queue_id = _try_key.queue_id and k.key = _try_key.key
    for update skip locked;
  if not found and not penstock._try_new_key(_try_key.queue_id, _try_key.key, _try_key.id) then
    return false;
  end if;
  waiting := (penstock._waiting_with_key(_try_key.queue_id, _try_key.key)).id;
  return waiting is null or penstock._try_waiting(_try_key.queue_id, _try_key.key, waiting);
end $$;

-- Inserts the row of a key that is not there, or locked. Another open transaction may just have inserted it, and only
-- the attempt can tell. PostgreSQL has no INSERT NOWAIT, so it sets a timeout. Locks: the new row until commit. Uses
-- message_key_pkey.
create or replace function penstock._try_new_key(queue_id integer, key text, id bigint) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  patience text := current_setting('lock_timeout');
begin
  if exists (select from penstock.message_key k where k.queue_id = _try_new_key.queue_id and k.key = _try_new_key.key)
    then
    return false;
  end if;
  perform set_config('lock_timeout', '1ms', true);
  insert into penstock.message_key (queue_id, key, id)
    values (_try_new_key.queue_id, _try_new_key.key, _try_new_key.id);
  perform set_config('lock_timeout', patience, true);
  return true;
exception when lock_not_available or unique_violation then
  return false;
end $$;
