-- move puts waiting messages and dead letters into another queue, and keeps their ids. A dead letter starts again at
-- its first attempt. Messages that are leased or finished, or in the queue already, are skipped. If a message with the
-- same key waits in the other queue, the older of the two is superseded. PS008 if the queue has no room, and PS005 if
-- a payload is larger than it allows: then no message is moved. Returns how many were moved. Locks: the rows. Indexes:
-- as cancel, and as enqueue.
create or replace function penstock.move(ids bigint[], queue text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q     penstock.queue;
  taken record;
  n     bigint := 0;
  wanted bigint;
begin
  if cardinality(ids) > 10000 or ids is null then
    perform penstock._fail_value('ids', cardinality(ids)::text, 'up to 10000 ids');
  end if;
  select * into q from penstock.queue t where t.name = move.queue;
  if not found then
    perform penstock._fail_unknown_queue(move.queue);
  end if;
  if q.name ^@ 'penstock.' then
    perform penstock._check_internal(q.name);
  end if;
  for wanted in select distinct i from unnest(ids) i order by i loop
    taken := penstock._take_waiting(wanted, true, q.id, null);
    continue when taken.state is null;
    perform penstock._check_size(q, taken.m);
    if (taken.m).key is not null then
      perform penstock._forget_key((taken.m).queue_id, (taken.m).key, wanted);
    end if;
    -- A batch follows its members: see functions/batches.
    if not q.has_members and exists (select from penstock.batch_member b where b.id = wanted) then
      update penstock.queue t set has_members = true where t.id = q.id;
      q.has_members := true;
    end if;
    if taken.state = 'dead' and q.has_members then
      perform penstock._revive_member(wanted);
    end if;
    taken.m.queue_id := q.id;
    perform penstock._place_again(q, taken.m, taken.due_at, true);
    n := n + 1;
  end loop;
  if n > 0 and not penstock._in_block() then   -- else at commit
    perform penstock._wake_waiters(q);
  end if;
  return n;
end $$;

-- Refuses a message whose payload is larger than the queue allows.
create or replace function penstock._check_size(q penstock.queue, m penstock.envelope) returns void
language plpgsql as $$
declare
  size bigint;
begin
  if m.body_slot is null then
    size := coalesce(octet_length(m.payload_bytes), penstock._text_bytes(m.payload));
  else
    size := coalesce(octet_length(penstock._body_bytes(m.body_slot, m.id)),
      penstock._text_bytes(penstock._body_json(m.body_slot, m.id)));
  end if;
  if size > q.max_payload_bytes then
    perform penstock._fail_too_large(q, size);
  end if;
end $$;

-- set_priority changes the priority of waiting messages, which then come last among those of their new priority.
-- Messages that are not waiting, or have the priority already, are skipped. Returns how many were changed. Locks: the
-- rows. Indexes: as cancel, and as enqueue.
create or replace function penstock.set_priority(ids bigint[], priority integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q      penstock.queue;
  taken  record;
  n      bigint := 0;
  wanted bigint;
begin
  if cardinality(ids) > 10000 or ids is null then
    perform penstock._fail_value('ids', cardinality(ids)::text, 'up to 10000 ids');
  elsif set_priority.priority not between -9 and 9 or set_priority.priority is null then
    perform penstock._fail_value('priority', set_priority.priority::text, '-9 to 9');
  end if;
  for wanted in select distinct i from unnest(ids) i order by i loop
    taken := penstock._take_waiting(wanted, false, null, set_priority.priority);
    continue when taken.state is null;
    if q.id is distinct from (taken.m).queue_id then
      select * into q from penstock.queue t where t.id = (taken.m).queue_id;
    end if;
    taken.m.priority := set_priority.priority;
    perform penstock._place_again(q, taken.m, taken.due_at, false);
    n := n + 1;
    if not penstock._in_block() then
      perform penstock._wake_waiters(q);
    end if;
  end loop;
  return n;
end $$;

-- Puts a message that was taken out of its table back: into its group, the schedule or the current segment of a queue.
-- reserve: it is new in the queue, so it counts for max_depth, and its key may be in use there.
create or replace function penstock._place_again(q penstock.queue, m penstock.envelope, due timestamptz,
  reserve boolean) returns void language plpgsql as $$
declare
  state text;
begin
  if m.priority <> all (q.priorities) or q.plain and (m.expires_at is not null or m.group_key is not null) then
    perform penstock._widen(q, penstock._lane_bits(m.priority, m.expires_at is null and m.group_key is null));
  end if;
  if reserve and q.max_depth is not null then
    perform penstock._reserve_depth(q, 1);
  end if;
  if reserve and m.key is not null then
    state := penstock._yield_key(m, 'wait');
  end if;
  if state is not null then
    perform penstock._finish(m, state, null);
  elsif m.group_key is not null then
    perform penstock._rejoin_group(m, due);
  elsif due is not null then
    perform penstock._put_scheduled(due, m);
  else
    perform penstock._put_ready(m, nextval('penstock.position'));
  end if;
end $$;

-- Takes a waiting message (with dead_too, a dead letter as well) out of its table, unless it is in the queue not_in or
-- has the priority unlike. Returns it with its state and the time at which it is due, or nulls. Locks: the row. Finds
-- it as _remove_waiting does. Uses scheduled_id, grouped_id and dead_pkey.
create or replace function penstock._take_waiting(id bigint, dead_too boolean, not_in integer, unlike integer,
  out m penstock.envelope, out state text, out due_at timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  s penstock.scheduled;
  g penstock.grouped;
  d penstock.dead;
  r penstock.ready_0;
begin
  delete from penstock.scheduled t where t.id = _take_waiting.id and t.group_key is null
    and t.queue_id is distinct from not_in and t.priority is distinct from unlike returning * into s;
  if found then
    m := ({envelope.columns(s)})::penstock.envelope;
    due_at := case when s.due_at > now_at then s.due_at end;
    state := case when s.due_at > now_at then 'scheduled' else 'ready' end;
    return;
  end if;
  delete from penstock.grouped t where t.id = _take_waiting.id
    and t.queue_id is distinct from not_in and t.priority is distinct from unlike returning * into g;
  if found then
    m := penstock._envelope(g);
    perform penstock._hasten_group_token(g.queue_id, g.group_key, g.visible_at);
    due_at := case when g.visible_at > now_at then g.visible_at end;
    state := case when g.visible_at > now_at then 'scheduled' else 'ready' end;
    return;
  end if;
  if dead_too then
    delete from penstock.dead t where t.id = _take_waiting.id and t.queue_id is distinct from not_in returning * into d;
    if found then
      m := (d.id, d.enqueued_at, null, d.first_claimed_at, d.claimed_at, null, d.queue_id, d.priority, 0,
        d.max_attempts, d.body_slot, d.worker, d.key, d.group_key, d.headers, d.payload, d.payload_bytes,
        d.last_error)::penstock.envelope;
      state := 'dead';
      return;
    end if;
  end if;
  r := penstock._take_ready(_take_waiting.id, not_in, unlike);
  if r.id is not null then
    m := ({envelope.columns(r)})::penstock.envelope;
    state := 'ready';
  end if;
end $$;

-- Takes a ready message out of its segment: by lane_N_order if it never came back, because then its position is its id,
-- otherwise by a scan. Locks: the row of the message.
create or replace function penstock._take_ready(id bigint, not_in integer, unlike integer) returns penstock.ready_0
language plpgsql as $$
#variable_conflict use_column
declare
  r penstock.ready_0;
begin
  r := penstock._take_fresh(_take_ready.id, not_in, unlike);
  if r.id is not null then
    return r;
  end if;
  --: for each segment
  delete from penstock.ready_{slot} t where t.id = _take_ready.id and t.group_key is null
    and t.queue_id is distinct from not_in and t.priority is distinct from unlike returning * into r;
  if found then
    return r;
  end if;
  --: end
  return null;
end $$;

-- Takes a ready message that never came back out of its segment. Uses lane_N_order, in every lane. Locks: the row of
-- the message.
create or replace function penstock._take_fresh(id bigint, not_in integer, unlike integer) returns penstock.ready_0
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
#variable_conflict use_column
declare
  r penstock.ready_0;
begin
  --: for each segment
  delete from penstock.ready_{slot} t using penstock.queue q cross join unnest(q.priorities) rank
  where t.queue_id = q.id and t.priority = rank and t.position = _take_fresh.id and t.id = _take_fresh.id
    and t.group_key is null and q.id is distinct from not_in and rank is distinct from unlike
  returning t.* into r;
  if found then
    return r;
  end if;
  --: end
  return null;
end $$;
