-- Undoes the latest purge of a queue, or of its dead letters ('<queue>.dlq'), within an hour: enqueues copies of the
-- removed messages, with new ids, and returns how many. History keeps the cancelled originals. A message whose key
-- waits again is skipped. PS028 if there is no such purge, PS008 if the queue has no room. Locks: the row of the purge,
-- and as enqueue.
-- Uses purge_queue and purged_pkey.
create or replace function penstock.undo_purge(name text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q     penstock.queue;
  p     penstock.purge;
  r     penstock.purged;
  dead  boolean := undo_purge.name ~ '\.dlq$';
  n     bigint := 0;
begin
  select * into q from penstock.queue t where t.name = regexp_replace(undo_purge.name, '\.dlq$', '');
  if not found then
    perform penstock._fail_unknown_queue(undo_purge.name);
  end if;
  select * into p from penstock.purge t where t.queue_id = q.id and t.is_dead = dead and t.undone_at is null
    and t.purged_at > clock_timestamp() - interval '1 hour'
  order by t.purged_at desc limit 1 for update;
  if not found then
    perform penstock._fail('PS028', format('queue %L has no purge to undo', undo_purge.name),
      jsonb_build_object('queue', undo_purge.name), 'A purge can be undone once, within an hour.');
  end if;
  for r in select * from penstock.purged t where t.purge_id = p.id order by t.id loop
    n := n + penstock._restore_purged(q, r, dead);
  end loop;
  delete from penstock.purged t where t.purge_id = p.id;
  update penstock.purge t set undone_at = clock_timestamp() where t.id = p.id;
  return n;
end $$;

-- Enqueues a copy of one purged message: 1, or 0 if another message with its key waits. Locks and indexes: as enqueue.
create or replace function penstock._restore_purged(q penstock.queue, r penstock.purged, dead boolean) returns integer
language plpgsql as $$
declare
  m   penstock.envelope := (null::bigint, r.enqueued_at, r.expires_at, r.first_claimed_at, r.claimed_at, r.dead_at,
    q.id, r.priority, r.attempt, r.max_attempts, null::smallint, r.worker, r.key, r.group_key, r.headers, r.payload,
    r.payload_bytes, r.last_error)::penstock.envelope;
  due timestamptz := case when r.due_at > clock_timestamp() then r.due_at end;
  put bigint;
begin
  if dead then
    m.id := nextval('penstock.position');
    m := penstock._store_body(m);
    insert into penstock.dead select (m).*;
    return 1;
  end if;
  if m.priority <> all (q.priorities) or q.plain and (m.expires_at is not null or m.group_key is not null) then
    perform penstock._widen(q, penstock._lane_bits(m.priority, m.expires_at is null and m.group_key is null));
  end if;
  if m.key is null then
    put := penstock._admit(q, m, due);
    return 1;
  end if;
  if (penstock._waiting_with_key(q.id, m.key)).id is not null then
    return 0;
  end if;
  put := penstock._enqueue_keyed(q, m, due, 'skip', 'waiting');
  return 1;
end $$;

-- Deletes messages that purges removed more than an hour ago, a bounded number at a time. Locks: the rows. Uses
-- purged_pkey.
create or replace function penstock._forget_purged() returns integer language plpgsql as $$
declare
  n integer;
begin
  delete from penstock.purged where ctid = any (array(
    select d.ctid from penstock.purge p join penstock.purged d on d.purge_id = p.id
    where p.purged_at < clock_timestamp() - interval '1 hour' limit 10000 for update of d skip locked));
  get diagnostics n = row_count;
  delete from penstock.purge p where p.purged_at < clock_timestamp() - interval '1 hour'
    and not exists (select from penstock.purged d where d.purge_id = p.id);
  return n;
end $$;
