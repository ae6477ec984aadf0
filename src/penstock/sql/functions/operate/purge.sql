-- Deletes the waiting messages of a queue (with include_leased the leased ones too) or its dead letters
-- ('<queue>.dlq'), at most max_count of them. History records them as cancelled. Returns their number.
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
begin
  if max_count < 0 then
    perform penstock._fail_value('max_count', max_count::text, '0 or more');
  end if;
  select * into q from penstock.queue t where t.name = regexp_replace(purge.name, '\.dlq$', '');
  if not found then
    perform penstock._fail_unknown_queue(purge.name);
  end if;
  if dead then
    with gone as (
      delete from penstock.dead where ctid = any (array(
        select m.ctid from penstock.dead m where m.queue_id = q.id limit max_count - n)) returning *),
    ended as (select penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at,
      g.queue_id, g.priority, g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers,
      g.payload, g.payload_bytes, g.last_error)::penstock.envelope, 'cancelled', null) from gone g)
    select count(*) into n from ended;
    return n;
  end if;
  with gone as (
    delete from penstock.scheduled where ctid = any (array(
      select m.ctid from penstock.scheduled m where m.queue_id = q.id and m.group_key is null limit max_count - n))
        returning *),
  ended as (select penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at,
    g.queue_id, g.priority, g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload,
    g.payload_bytes, g.last_error)::penstock.envelope, 'cancelled', null) from gone g)
  select count(*) into n from ended;
  with gone as (
    delete from penstock.grouped where ctid = any (array(
      select m.ctid from penstock.grouped m where m.queue_id = q.id limit max_count - n)) returning *),
  ended as (select penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at,
    g.queue_id, g.priority, g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload,
    g.payload_bytes, g.last_error)::penstock.envelope, 'cancelled', null) from gone g)
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
  ended as (select penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at,
    g.queue_id, g.priority, g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload,
    g.payload_bytes, g.last_error)::penstock.envelope, 'cancelled', null) from gone g)
  select n + count(*) into n from ended;
  --: end
  if include_leased then
    --: for each segment
    for l in delete from penstock.held_{slot} where place = any (array(
        select t.place from penstock.held_{slot} t where t.queue_id = q.id limit max_count - n for update))
          returning {leased} loop
      perform penstock._finish(penstock._envelope(l), 'cancelled', null);
      n := n + 1;
    end loop;
    for l in delete from penstock.leased_{slot} where ctid = any (array(
        select t.ctid from penstock.leased_{slot} t where t.queue_id = q.id and t.dead_at is null limit max_count - n
          for update)) returning * loop
      perform penstock._finish(penstock._envelope(l), 'cancelled', null);
      if l.group_key is not null then
        perform penstock._issue_group_token(l.queue_id, l.group_key, l.position);
      end if;
      n := n + 1;
    end loop;
    --: end
  end if;
  return n;
end $$;
