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
