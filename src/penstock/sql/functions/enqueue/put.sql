-- Put a message into a segment. _put_ready inserts a message into the current segment at a position.
-- Locks: ROW EXCLUSIVE on the segment until commit. Indexes: none; _put_again scans the segment.
create or replace function penstock._put_ready(m penstock.envelope, at_position bigint) returns void language plpgsql
  as $$
declare
  slot integer;
begin
  slot := penstock._lock_current();
  --: branch on slot
  insert into penstock.ready_{slot} select at_position, (m).*;
  --: end
  -- A new message of a statement in autocommit has joined its generation before it took its position.
  if at_position <> m.id or penstock._in_block() then
    perform penstock._announce_put(m.queue_id, m.priority, at_position);
  end if;
  if {ring.current({ring.value})} <> slot then
    perform penstock._put_beside(slot, m.queue_id, m.priority);
  end if;
  if at_position >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
end $$;

-- A message was put into a segment by a transaction block, or while the ring turned or a generation began, or it is the
-- message that makes the ring turn. Its segment may have been freed between the look at the ring and the insert (whose
-- lock then keeps it in the ring). Then it is inserted again.
create or replace function penstock._put_special(slot integer, new_id bigint, queue_id integer, priority integer,
  in_block boolean) returns void language plpgsql as $$
begin
  if {ring.current({ring.value})} <> slot then
    if slot = any (penstock._used_slots()) then
      perform penstock._put_beside(slot, queue_id, priority);
    else
      perform penstock._put_again(slot, new_id);
    end if;
  elsif not in_block then
    perform penstock._announce_put(queue_id, priority, new_id);
  elsif strpos(coalesce(current_setting('penstock.announced', true), ''),
    ' ' || queue_id::text || '/' || priority::text || ' ') = 0 then
    perform penstock._announce_here(slot, queue_id, priority, new_id);
  end if;
  if new_id >= pg_sequence_last_value('penstock.ring_until') then
    perform penstock._rotate();
  end if;
end $$;

-- Moves a message that was just inserted into a segment outside the ring to the current segment. Locks: ROW EXCLUSIVE
-- on the current segment until commit. Scans the segment that the message leaves.
create or replace function penstock._put_again(slot integer, id bigint) returns void language plpgsql as $$
#variable_conflict use_column
declare
  m penstock.ready_0;
begin
  --: branch on slot
  delete from penstock.ready_{slot} r where r.id = _put_again.id returning * into m;
  --: end
  perform penstock._put_ready(({envelope.columns(m)})::penstock.envelope, m.position);
end $$;

-- Messages were put into a segment that is no longer the current one. Claims look there only if the segment is in use
-- and the floor of the lane is not in the share of positions of the current segment. Locks: as _reopen and
-- _announce_put. Indexes: none.
create or replace function penstock._put_beside(slot integer, queue_id integer, priority integer) returns void
language plpgsql as $$
begin
  if strpos({ring.in_use({ring.text})}, slot::text) = 0 then
    perform penstock._reopen(slot::text);
  end if;
  perform penstock._forget_announcements(), penstock._announce_put(queue_id, priority, penstock._current_from());
end $$;

-- Announces a message that a transaction block has just put into a segment, whose lock it already has. Indexes: none.
create or replace function penstock._announce_here(slot integer, queue_id integer, priority integer, at_position bigint)
returns void language plpgsql as $$
begin
  perform set_config('penstock.announced', coalesce(current_setting('penstock.announced', true), '')
    || ' ' || queue_id::text || '/' || priority::text || ' ', true);
  --: branch on slot
  insert into penstock.deferred_{slot} (announced_at, kind, queue_id, priority, position)
  values (clock_timestamp(), 'put', queue_id, priority, at_position);
  --: end
end $$;
