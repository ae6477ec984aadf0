-- Deletes the waiting messages of a queue (with include_leased the leased ones too) or its dead letters
-- ('<queue>.dlq'), at most max_count of them. History records them as cancelled. They are kept for an hour: see
-- undo_purge. Returns their number.
-- Locks: the rows. Uses scheduled_queue, grouped_order and dead_queue; lanes and leases are scanned.
create or replace function penstock.purge(name text, include_leased boolean default false,
  max_count bigint default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q    penstock.queue;
  l    penstock.leased_0;
  dead boolean := purge.name ~ '\.dlq$';
  n    bigint := 0;
  now_at timestamptz := clock_timestamp();
  batch  uuid := gen_random_uuid();
begin
  if max_count < 0 then
    perform penstock._fail_value('max_count', max_count::text, '0 or more');
  end if;
  select * into q from penstock.queue t where t.name = regexp_replace(purge.name, '\.dlq$', '');
  if not found then
    perform penstock._fail_unknown_queue(purge.name);
  end if;
  insert into penstock.purge (id, queue_id, is_dead, count, purged_at) values (batch, q.id, dead, 0, now_at);
  if dead then
    with gone as (
      delete from penstock.dead where ctid = any (array(
        select m.ctid from penstock.dead m where m.queue_id = q.id limit max_count - n)) returning *),
    ended as (select penstock._purge_message(batch,
      ({envelope.columns(g)})::penstock.envelope, null) from gone g)
    select count(*) into n from ended;
    perform penstock._count_purge(batch, n);
    return n;
  end if;
  with gone as (
    delete from penstock.scheduled where ctid = any (array(
      select m.ctid from penstock.scheduled m where m.queue_id = q.id and m.group_key is null limit max_count - n))
        returning *),
  ended as (select penstock._purge_message(batch,
      ({envelope.columns(g)})::penstock.envelope, g.due_at) from gone g)
  select count(*) into n from ended;
  with gone as (
    delete from penstock.grouped where ctid = any (array(
      select m.ctid from penstock.grouped m where m.queue_id = q.id limit max_count - n)) returning *),
  ended as (select penstock._purge_message(batch,
      ({envelope.columns(g)})::penstock.envelope, g.visible_at) from gone g)
  select n + count(*) into n from ended;
  -- A group token may wait for a delayed message that is deleted now, so it becomes due at once.
  update penstock.scheduled m set due_at = now_at where m.queue_id = q.id and m.group_key is not null
    and m.due_at > now_at;
  --: for each segment
  with gone as (
    delete from penstock.lane_{slot} where ctid = any (array(
      select m.ctid from penstock.lane_{slot} m where m.queue_id = q.id and m.group_key is null and m.hold = 0
        limit max_count - n))
      and hold = 0  -- a claim may have leased the message meanwhile
    returning *),
  ended as (select penstock._purge_message(batch,
      ({envelope.columns(g)})::penstock.envelope, null) from gone g)
  select n + count(*) into n from ended;
  --: end
  if include_leased then
    --: for each segment
    for l in delete from penstock.held_{slot} where place = any (array(
        select t.place from penstock.held_{slot} t where t.queue_id = q.id limit max_count - n for update))
          returning {leased} loop
      perform penstock._purge_message(batch, penstock._envelope(l), null);
      n := n + 1;
    end loop;
    for l in delete from penstock.leased_{slot} where ctid = any (array(
        select t.ctid from penstock.leased_{slot} t where t.queue_id = q.id and t.dead_at is null limit max_count - n
          for update)) returning * loop
      perform penstock._purge_message(batch, penstock._envelope(l), null);
      if l.group_key is not null then
        perform penstock._issue_group_token(l.queue_id, l.group_key, l.position);
      end if;
      n := n + 1;
    end loop;
    --: end
  end if;
  perform penstock._count_purge(batch, n);
  return n;
end $$;

-- Ends a message, and keeps a copy of it for undo_purge. Locks: the new row, otherwise as _finish. Uses body_N_id.
create or replace function penstock._purge_message(batch uuid, m penstock.envelope, due timestamptz) returns void
language plpgsql as $$
begin
  insert into penstock.purged (purge_id, due_at, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at,
    priority, attempt, max_attempts, worker, key, group_key, headers, payload, payload_bytes, last_error)
  values (batch, due, m.id, m.enqueued_at, m.expires_at, m.first_claimed_at, m.claimed_at, m.dead_at, m.priority,
    m.attempt, m.max_attempts, m.worker, m.key, m.group_key, m.headers,
    case when m.body_slot is null then m.payload else penstock._body_json(m.body_slot, m.id) end,
    case when m.body_slot is null then m.payload_bytes else penstock._body_bytes(m.body_slot, m.id) end, m.last_error);
  perform penstock._finish(m, 'cancelled', null);
end $$;

-- Writes down how many messages a purge removed. A purge of none leaves no row. Locks: the row of the purge. Uses
-- purge_pkey.
create or replace function penstock._count_purge(batch uuid, n bigint) returns void language plpgsql as $$
begin
  if n = 0 then
    delete from penstock.purge p where p.id = batch;
  else
    update penstock.purge p set count = n where p.id = batch;
  end if;
end $$;
