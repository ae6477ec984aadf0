-- Delete, archive and set_vt. PGMQ identifies a message by its id alone, even if another consumer has read it or its vt
-- has passed. A message that was leased by token through another interface belongs to its holder until that lease ends.
-- Locks: the rows of the messages. Uses leased_N_id, otherwise as penstock.cancel.

-- Deletes messages that were read, with one statement for each segment, if nothing else has to be done. Locks: the rows
-- of the messages. Uses leased_N_id and queue_name_key.
create or replace function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  ring    bigint := pg_sequence_last_value('penstock.ring');
  older   text;
  slot    integer := {ring.current(ring)};
  missing integer := cardinality(msg_ids);
  n       integer;
begin
  loop
    --: branch on slot
    return query delete from penstock.leased_{slot} l
    where l.token < 0 and {token.leaves_no_history(l.token)} and l.id = any (msg_ids)
      and (l.key, l.group_key, l.body_slot, l.dead_at) is null and {is_no_member(l)}
      and l.queue_id = (select q.id from penstock.queue q where q.name = lower(queue_name))
    returning l.id;
    --: end
    get diagnostics n = row_count;
    missing := missing - n;
    exit when missing <= 0;
    -- Usually all of them are in the current segment. Otherwise continue with the older segments, the newest first.
    older := coalesce(older, reverse({ring.others(ring)}));
    exit when older = '';
    slot := left(older, 1);
    older := substr(older, 2);
  end loop;
  if missing > 0 then
    return query select e.msg_id from pgmq._end(queue_name, msg_ids, false) e;
  end if;
end $$;

create or replace function pgmq.delete(queue_name text, msg_id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  ring  bigint := pg_sequence_last_value('penstock.ring');
  older text;
  slot  integer := {ring.current(ring)};
begin
  loop
    --: branch on slot
    delete from penstock.leased_{slot} l
    where l.token < 0 and {token.leaves_no_history(l.token)} and l.id = delete.msg_id
      and (l.key, l.group_key, l.body_slot, l.dead_at) is null and {is_no_member(l)}
      and l.queue_id = (select q.id from penstock.queue q where q.name = lower(queue_name));
    --: end
    if found then
      return true;
    end if;
    older := coalesce(older, reverse({ring.others(ring)}));
    exit when older = '';
    slot := left(older, 1);
    older := substr(older, 2);
  end loop;
  return exists (select from pgmq._end(queue_name, array[delete.msg_id], false));
end $$;

-- Moves messages to the archive of their queue, and returns the ids of those that existed. Locks: the rows of the
-- messages. Uses leased_N_id.
create or replace function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select e.msg_id from pgmq._end(queue_name, msg_ids, true) e;
end $$;

-- Archives messages that were read in this segment, with one statement, if nothing else has to be done. Locks: the row
-- of the message. Uses leased_N_id and queue_name_key.
--: for each segment
create or replace function pgmq._archive_{slot}(queue_name text, msg_id bigint) returns boolean language plpgsql as $$
#variable_conflict use_column
begin
  with gone as (
    delete from penstock.leased_{slot} l
    where l.token < 0 and {token.leaves_no_history(l.token)} and l.id = _archive_{slot}.msg_id
      and (l.key, l.group_key, l.body_slot, l.dead_at) is null and {is_no_member(l)}
      and l.queue_id = (select q.id from penstock.queue q where q.name = lower(queue_name))
    returning l.queue_id, l.id, l.attempt, l.enqueued_at, l.claimed_at, l.lease_until, l.payload, l.payload_bytes,
      l.headers)
  insert into penstock.pgmq_archive (queue_id, msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
  select g.queue_id, g.id, g.attempt, g.enqueued_at, g.claimed_at, g.lease_until,
    case when g.payload is null then to_jsonb(encode(g.payload_bytes, 'base64')) else g.payload end, g.headers
      from gone g;
  return found;
end $$;
--: end

create or replace function pgmq.archive(queue_name text, msg_id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
  ring     bigint := pg_sequence_last_value('penstock.ring');
  older    text;
  slot     integer := {ring.current(ring)};
  archived boolean;
begin
  loop
    --: branch on slot
    archived := pgmq._archive_{slot}(queue_name, msg_id);
    --: end
    if archived then
      return true;
    end if;
    older := coalesce(older, reverse({ring.others(ring)}));
    exit when older = '';
    slot := left(older, 1);
    older := substr(older, 2);
  end loop;
  return exists (select from pgmq._end(queue_name, array[msg_id], true));
end $$;

-- Ends messages: done if they were read, cancelled if not. History records them if the queue keeps history. Locks: the
-- rows of the messages. Indexes: as _pull_by_id and _pull_waiting.
create or replace function pgmq._end(queue_name text, ids bigint[], to_archive boolean)
returns setof pgmq.message_record language plpgsql as $$
declare
  q  penstock.queue := pgmq._queue(queue_name);
  id bigint;
  l  penstock.leased_0;
  m  penstock.envelope;
  r  pgmq.message_record;
begin
  for l in select * from penstock._pull_by_id(q.id, ids) loop
    r := pgmq._record(l);
    ids := array_remove(ids, l.id);
    if to_archive then
      perform pgmq._archive(q.id, r);
    end if;
    perform penstock._done(l);
    return next r;
  end loop;
  foreach id in array coalesce(ids, '{}') loop
    m := penstock._pull_waiting(q.id, id);
    continue when m.id is null;
    r := pgmq._record(m, clock_timestamp());
    if to_archive then
      perform pgmq._archive(q.id, r);
    end if;
    perform penstock._finish(m, case when m.attempt > 0 then 'done' else 'cancelled' end, null);
    return next r;
  end loop;
end $$;

-- Writes a row of the archive. Locks: the new row. Uses pgmq_archive_pkey.
create or replace function pgmq._archive(queue_id integer, r pgmq.message_record) returns void language sql as $$
  insert into penstock.pgmq_archive (queue_id, msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
  values (queue_id, r.msg_id, r.read_ct, r.enqueued_at, r.last_read_at, r.vt, r.message, r.headers)
$$;

-- Reads and deletes at once. The record shows the message as it was, because a pop does not count as a read. Locks and
-- indexes: as read and delete.
create or replace function pgmq.pop(queue_name text, qty integer default 1) returns setof pgmq.message_record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  r pgmq.message_record;
begin
  for r in select * from pgmq.read(queue_name, 60, qty) loop
    perform pgmq.delete(queue_name, array[r.msg_id]);
    r.read_ct := r.read_ct - 1;
    r.last_read_at := case when r.read_ct > 0 then r.last_read_at end;
    r.vt := r.enqueued_at;
    return next r;
  end loop;
end $$;

-- Sets the time from which messages are visible: the end of their leases, or a delay for messages that wait. Returns
-- the changed messages. Locks: the rows of the messages. Uses leased_N_id, lane_N_order and scheduled_id.
create or replace function pgmq.set_vt(queue_name text, msg_ids bigint[], vt timestamptz)
returns setof pgmq.message_record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q      penstock.queue := pgmq._queue(queue_name);
  now_at timestamptz := clock_timestamp();
  due    timestamptz := greatest(set_vt.vt, now_at);
  id     bigint;
  l      penstock.leased_0;
  m      penstock.envelope;
begin
  if not isfinite(set_vt.vt) or set_vt.vt is null or set_vt.vt > now_at + interval '100 years' then
    perform penstock._fail_value('vt', set_vt.vt::text, 'a time within the next 100 years');
  end if;
  foreach id in array coalesce(msg_ids, '{}') loop
    select * into l from penstock._held_by_id(q.id, array[id]);
    if found then
      if penstock._amend_by_id(q.id, id, l.attempt, due, l.worker) then
        l.lease_until := set_vt.vt;
        return next pgmq._record(l);
      end if;
      continue;
    end if;
    m := penstock._pull_waiting(q.id, id);
    if m.id is not null then
      return next pgmq._record(m, set_vt.vt);
      perform penstock._place(q, m, case when due > now_at then 'scheduled' else 'ready' end, case when due > now_at
        then due end, null);
    end if;
  end loop;
end $$;

create or replace function pgmq.set_vt(queue_name text, msg_ids bigint[], vt integer) returns setof pgmq.message_record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq.set_vt(queue_name, msg_ids, clock_timestamp() + make_interval(secs => set_vt.vt));
end $$;

create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt timestamptz) returns setof pgmq.message_record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq.set_vt(queue_name, array[set_vt.msg_id], set_vt.vt);
end $$;

create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt integer) returns setof pgmq.message_record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq.set_vt(queue_name, array[set_vt.msg_id],
    clock_timestamp() + make_interval(secs => set_vt.vt));
end $$;
