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
  slot := penstock._lock_current();
  --: branch on slot
  with gone as (
    delete from penstock.scheduled where ctid = any (array(
      select s.ctid from penstock.scheduled s where s.due_at > after and s.due_at <= until
        and (only_queue is null or s.queue_id = only_queue)
      order by s.due_at limit piece for update skip locked)) returning *),
  put as (
    insert into penstock.lane_{slot} (position, {envelope})
    select nextval('penstock.position'), {envelope.columns(g)}
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
