-- Cancels a message that is waiting, leased or dead; a worker that holds it loses its lease. Returns the state it was in.
create or replace function penstock.cancel(id bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  state text := penstock._remove_waiting(id, 'cancelled');
begin
  if state is null then
    perform penstock._fail_unknown_message(id);
  end if;
  return state;
end $$;

select penstock._unroll($unroll$
-- Ends a message wherever it is. A ready message that never came back is found in its lane; the others that are ready, and
-- those that are leased, by a scan of their segments, which is what it costs that the way of every message needs one index less.
create or replace function penstock._remove_waiting(id bigint, final_state text) returns text language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  s penstock.scheduled;
  g penstock.grouped;
  d penstock.dead;
  r penstock.ready_0;
  l penstock.leased_0;
begin
  delete from penstock.scheduled t where t.id = _remove_waiting.id and t.group_key is null returning * into s;
  if found then
    perform penstock._finish((s.id, s.enqueued_at, s.expires_at, s.first_claimed_at, s.claimed_at, s.dead_at, s.queue_id, s.priority, s.attempt, s.max_attempts,
      s.body_slot, s.worker, s.key, s.group_key, s.headers, s.payload, s.payload_bytes, s.last_error)::penstock.envelope, final_state, null);
    return case when s.due_at > now_at then 'scheduled' else 'ready' end;
  end if;
  delete from penstock.grouped t where t.id = _remove_waiting.id returning * into g;
  if found then
    perform penstock._finish(penstock._envelope(g), final_state, null);
    perform penstock._hasten_ticket(g.queue_id, g.group_key, g.visible_at);
    return case when g.visible_at > now_at then 'scheduled' else 'ready' end;
  end if;
  delete from penstock.dead t where t.id = _remove_waiting.id returning * into d;
  if found then
    perform penstock._finish((d.id, d.enqueued_at, d.expires_at, d.first_claimed_at, d.claimed_at, d.dead_at, d.queue_id, d.priority, d.attempt, d.max_attempts,
      d.body_slot, d.worker, d.key, d.group_key, d.headers, d.payload, d.payload_bytes, d.last_error)::penstock.envelope, final_state, null);
    return 'dead';
  end if;
  if penstock._remove_fresh(_remove_waiting.id, final_state) then
    return 'ready';
  end if;
  --[
  delete from penstock.ready_{slot} t where t.id = _remove_waiting.id and t.group_key is null returning * into r;
  if found then
    perform penstock._finish((r.id, r.enqueued_at, r.expires_at, r.first_claimed_at, r.claimed_at, r.dead_at, r.queue_id, r.priority, r.attempt, r.max_attempts,
      r.body_slot, r.worker, r.key, r.group_key, r.headers, r.payload, r.payload_bytes, r.last_error)::penstock.envelope, final_state, null);
    return 'ready';
  end if;
  --]
  --[
  delete from penstock.held_{slot} where id = _remove_waiting.id returning {leased} into l;
  if not found then
    delete from penstock.leased_{slot} t where t.id = _remove_waiting.id returning * into l;
  end if;
  if found then
    perform penstock._finish(penstock._envelope(l), final_state, null);
    if l.group_key is not null and l.dead_at is null then
      perform penstock._issue_ticket(l.queue_id, l.group_key, l.position);
    end if;
    return case when l.lease_until > now_at then 'leased' when l.dead_at is not null then 'dead' else 'ready' end;
  end if;
  --]
  return null;
end $$;

-- Ends a ready message that never came back: its position is its id. By lane_N_order, in every lane there is.
create or replace function penstock._remove_fresh(id bigint, final_state text) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  r penstock.ready_0;
begin
  --[
  delete from penstock.ready_{slot} t using penstock.queue q cross join unnest(q.priorities) rank
  where t.queue_id = q.id and t.priority = rank and t.position = _remove_fresh.id and t.id = _remove_fresh.id and t.group_key is null
  returning t.* into r;
  if found then
    perform penstock._finish((r.id, r.enqueued_at, r.expires_at, r.first_claimed_at, r.claimed_at, r.dead_at, r.queue_id, r.priority, r.attempt, r.max_attempts,
      r.body_slot, r.worker, r.key, r.group_key, r.headers, r.payload, r.payload_bytes, r.last_error)::penstock.envelope, final_state, null);
    return true;
  end if;
  --]
  return false;
end $$;
$unroll$);
