-- Puts due messages, and due group tokens, at the end of their lanes. Returns how many.
-- Locks: the rows, with SKIP LOCKED; ROW EXCLUSIVE on the current segment until commit. Uses scheduled_due.
create or replace function penstock._release_due(only_queue integer, after timestamptz, until timestamptz,
  piece integer)
returns integer language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  n     integer;
  lanes integer;
  slot  integer;
begin
  if not exists (select from penstock.scheduled s where s.due_at > after and s.due_at <= until
                 and (only_queue is null or s.queue_id = only_queue)) then
    return 0;
  end if;
  slot := penstock._hold_current();
  --: branch on slot
  with gone as (
    delete from penstock.scheduled where ctid = any (array(
      select s.ctid from penstock.scheduled s where s.due_at > after and s.due_at <= until
        and (only_queue is null or s.queue_id = only_queue)
      order by s.due_at limit piece for update skip locked)) returning *),
  put as (
    insert into penstock.lane_{slot} (position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at,
      queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes,
      last_error)
    select nextval('penstock.position'), g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at,
      g.queue_id, g.priority, g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers,
      g.payload, g.payload_bytes, g.last_error
    from (select * from gone order by due_at, id) g
    returning position, queue_id, priority),
  lane as (select p.queue_id, p.priority, min(p.position) as first, count(*) as n from put p
    group by p.queue_id, p.priority)
  select coalesce(sum(l.n), 0), count(penstock._announce_put(l.queue_id, l.priority,
    case when {ring.current({ring.value})} = {slot} then l.first
      else least(l.first, penstock._current_from()) end)::text)
  into n, lanes from lane l;
  --: end
  if pg_sequence_last_value('penstock.position') >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
  return n;
end $$;
