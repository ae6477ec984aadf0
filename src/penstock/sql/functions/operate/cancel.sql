-- cancel ends a message that is waiting, leased or dead, and returns its previous state. A worker that holds the
-- message loses its lease.
-- Locks: the row of the message. Uses scheduled_id, grouped_id, dead_pkey and lane_N_order, otherwise scans: see
-- _remove_waiting.
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

-- cancel_many cancels messages that are waiting, leased or dead, skips ids that do not exist, and returns the number of
-- cancelled messages. Ids are processed in order, so two callers lock rows in the same order. Locks and indexes: as
-- cancel.
create or replace function penstock.cancel_many(ids bigint[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if cardinality(ids) > {limit.messages} or ids is null then
    perform penstock._fail_value('ids', cardinality(ids)::text, 'up to {limit.messages} ids');
  end if;
  return (select count(penstock._remove_waiting(wanted.id, 'cancelled'))
    from (select distinct i as id from unnest(ids) i order by i) wanted);
end $$;

-- Ends a message in any table. Ready messages that came back, and leased ones, are found by a scan of their segments,
-- because an index on the id would cost every message. Returns the previous state, or null if the message does not
-- exist. Locks: the row of the message.
create or replace function penstock._remove_waiting(id bigint, final_state text) returns text language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  state  text := penstock._remove_indexed(_remove_waiting.id, final_state);
  r penstock.ready_0;
  l penstock.leased_0;
begin
  if state is not null then
    return state;
  end if;
  --: for each segment
  delete from penstock.ready_{slot} t where t.id = _remove_waiting.id and t.group_key is null returning * into r;
  if found then
    perform penstock._finish(({envelope.columns(r)})::penstock.envelope, final_state, null);
    return 'ready';
  end if;
  --: end
  --: for each segment
  delete from penstock.held_{slot} where id = _remove_waiting.id returning {leased} into l;
  if not found then
    delete from penstock.leased_{slot} t where t.id = _remove_waiting.id returning * into l;
  end if;
  if found then
    perform penstock._finish(penstock._envelope(l), final_state, null);
    if l.group_key is not null and l.dead_at is null then
      perform penstock._issue_group_token(l.queue_id, l.group_key, l.position);
    end if;
    return case when l.lease_until > now_at then 'leased' when l.dead_at is not null then 'dead' else 'ready' end;
  end if;
  --: end
  return null;
end $$;

-- Ends members of batches in any table, and returns their number. It leaves out those that others have locked. Each
-- segment is scanned once for all messages that no index finds. Locks: the rows of the messages, with SKIP LOCKED, and
-- the rows of group tokens.
create or replace function penstock._remove_many(ids bigint[], final_state text) returns bigint language plpgsql as $$
#variable_conflict use_column
declare
  known constant bigint[] := penstock._remove_many_indexed(ids, final_state);
  rest  constant bigint[] := array(select unnest(ids) except select unnest(known));
  n     bigint := cardinality(known);
  r penstock.lane_0;
  l penstock.leased_0;
begin
  if rest = '{}' then
    return n;
  end if;
  --: for each segment
  for r in delete from penstock.lane_{slot} where ctid = any (array(
      select t.ctid from penstock.lane_{slot} t where t.id = any (rest) and t.hold = 0 and t.group_key is null
      for update skip locked)) returning * loop
    perform penstock._finish(({envelope.columns(r)})::penstock.envelope, final_state, null);
    n := n + 1;
  end loop;
  for l in delete from penstock.held_{slot} where place = any (array(
      select t.ctid from penstock.lane_{slot} t where t.id = any (rest) and t.hold <> 0 for update skip locked))
    returning {leased} loop
    perform penstock._finish(penstock._envelope(l), final_state, null);
    n := n + 1;
  end loop;
  for l in delete from penstock.leased_{slot} where ctid = any (array(
      select t.ctid from penstock.leased_{slot} t where t.id = any (rest) for update skip locked)) returning * loop
    perform penstock._finish(penstock._envelope(l), final_state, null);
    if l.group_key is not null and l.dead_at is null then
      perform penstock._issue_group_token(l.queue_id, l.group_key, l.position);
    end if;
    n := n + 1;
  end loop;
  --: end
  return n;
end $$;

-- Ends those members that an index finds, as _remove_indexed does for one message, and returns their ids. It
-- leaves out those that another transaction has locked. Uses scheduled_id, grouped_id, dead_pkey and lane_N_order, in
-- every lane. Locks: the rows of the messages, with SKIP LOCKED, and the rows of group tokens.
create or replace function penstock._remove_many_indexed(ids bigint[], final_state text) returns bigint[]
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
#variable_conflict use_column
declare
  removed bigint[] := '{}';
  s penstock.scheduled;
  g penstock.grouped;
  d penstock.dead;
  r penstock.lane_0;
begin
  for s in delete from penstock.scheduled where ctid = any (array(
      select t.ctid from penstock.scheduled t where t.id = any (ids) and t.group_key is null
      for update skip locked)) returning * loop
    perform penstock._finish(({envelope.columns(s)})::penstock.envelope, final_state, null);
    removed := removed || s.id;
  end loop;
  for g in delete from penstock.grouped where ctid = any (array(
      select t.ctid from penstock.grouped t where t.id = any (ids) for update skip locked)) returning * loop
    perform penstock._finish(penstock._envelope(g), final_state, null);
    perform penstock._hasten_group_token(g.queue_id, g.group_key, g.visible_at);
    removed := removed || g.id;
  end loop;
  for d in delete from penstock.dead where ctid = any (array(
      select t.ctid from penstock.dead t where t.id = any (ids) for update skip locked)) returning * loop
    perform penstock._finish(({envelope.columns(d)})::penstock.envelope, final_state, null);
    removed := removed || d.id;
  end loop;
  --: for each segment
  for r in delete from penstock.lane_{slot} where ctid = any (array(
      select m.ctid from unnest(ids) wanted cross join lateral (
        select t.ctid from penstock.queue q cross join unnest(q.priorities) rank
          join penstock.lane_{slot} t on t.queue_id = q.id and t.priority = rank and t.position = wanted
        where t.id = wanted and t.hold = 0 and t.group_key is null and q.has_members
        for update of t skip locked) m)) returning * loop
    perform penstock._finish(({envelope.columns(r)})::penstock.envelope, final_state, null);
    removed := removed || r.id;
  end loop;
  --: end
  return removed;
end $$;

-- Ends a message that an index finds: one that is scheduled, dead or in a group, or ready and never came back (see
-- _remove_fresh). Returns the previous state, or null. Locks: the row of the message.
create or replace function penstock._remove_indexed(id bigint, final_state text) returns text language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  s penstock.scheduled;
  g penstock.grouped;
  d penstock.dead;
begin
  delete from penstock.scheduled t where t.id = _remove_indexed.id and t.group_key is null returning * into s;
  if found then
    perform penstock._finish(({envelope.columns(s)})::penstock.envelope, final_state, null);
    return case when s.due_at > now_at then 'scheduled' else 'ready' end;
  end if;
  delete from penstock.grouped t where t.id = _remove_indexed.id returning * into g;
  if found then
    perform penstock._finish(penstock._envelope(g), final_state, null);
    perform penstock._hasten_group_token(g.queue_id, g.group_key, g.visible_at);
    return case when g.visible_at > now_at then 'scheduled' else 'ready' end;
  end if;
  delete from penstock.dead t where t.id = _remove_indexed.id returning * into d;
  if found then
    perform penstock._finish(({envelope.columns(d)})::penstock.envelope, final_state, null);
    return 'dead';
  end if;
  if penstock._remove_fresh(_remove_indexed.id, final_state) then
    return 'ready';
  end if;
  return null;
end $$;

-- Ends a ready message that never came back, whose position is its id. Uses lane_N_order, in every lane. Locks: the row
-- of the message.
create or replace function penstock._remove_fresh(id bigint, final_state text) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
  as $$
#variable_conflict use_column
declare
  r penstock.ready_0;
begin
  --: for each segment
  delete from penstock.ready_{slot} t using penstock.queue q cross join unnest(q.priorities) rank
  where t.queue_id = q.id and t.priority = rank and t.position = _remove_fresh.id and t.id = _remove_fresh.id
    and t.group_key is null
  returning t.* into r;
  if found then
    perform penstock._finish(({envelope.columns(r)})::penstock.envelope, final_state, null);
    return true;
  end if;
  --: end
  return false;
end $$;
