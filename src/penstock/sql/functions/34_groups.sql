-- Groups. The row in message_group exists as long as the group has a ticket. Messages of a group are in the order in which
-- their transactions commit, and within a transaction in the order of enqueue: they get their positions in a deferred trigger, under
-- a lock on that row (24_at_commit.sql). So enqueuers of a group wait for each other only while one of them commits.

-- Holds a group until commit. True if it was begun by this: then it has no ticket yet.
create or replace function penstock._lock_group(queue_id integer, group_key text) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  loop
    insert into penstock.message_group (queue_id, group_key) values (_lock_group.queue_id, _lock_group.group_key) on conflict do nothing;
    if found then
      return true;
    end if;
    perform from penstock.message_group g where g.queue_id = _lock_group.queue_id and g.group_key = _lock_group.group_key for update;
    if found then
      return false;
    end if;
  end loop;
end $$;

-- Puts a new message into its group. Its position is negative until its transaction commits. Returns its id.
create or replace function penstock._join_group(m penstock.envelope, due timestamptz) returns bigint language plpgsql as $$
begin
  m.id := nextval('penstock.position');
  m := penstock._store_body(m);
  insert into penstock.grouped select -m.id, coalesce(due, m.enqueued_at), (m).*;
  perform penstock._announce('join', 'join', null, at_position => -m.id);
  return m.id;
end $$;

-- Puts the ticket of a group where its next message belongs: the schedule, or its lane. Without a next message the
-- group ends; unless somebody is enqueuing to it just now, or we cannot see that nobody is: then we look again soon.
-- So it is with head_is_held, when a claim found the next message in the hands of somebody who may be cancelling or
-- replacing it: to put the ticket back into its lane would hand it to the same claim again, and again.
create or replace function penstock._issue_ticket(
  queue_id integer, group_key text, after bigint, head_is_held boolean default false, at_commit boolean default false)
returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  head   record;
  ticket penstock.envelope;
  soon   constant interval := interval '20 milliseconds';
begin
  ticket.id := after;
  ticket.enqueued_at := clock_timestamp();
  ticket.queue_id := _issue_ticket.queue_id;
  ticket.group_key := _issue_ticket.group_key;
  ticket.priority := 0;
  ticket.attempt := 0;
  ticket.max_attempts := 1;
  head := penstock._group_head(_issue_ticket.queue_id, _issue_ticket.group_key, after);
  if head.position is null then
    if penstock._in_block() and not at_commit then
      -- To end it now would lock its row for as long as this transaction is open.
      -- Under a name that nobody can guess. A caller who could have it count as announced would leave a group without a
      -- ticket, and everybody's messages in it would wait forever.
      perform penstock._announce('end ' || gen_random_uuid(), 'end group', _issue_ticket.queue_id, null, after, _issue_ticket.group_key);
      return;
    elsif penstock._end_group(_issue_ticket.queue_id, _issue_ticket.group_key, after) then
      return;
    end if;
    perform penstock._put_scheduled(ticket.enqueued_at + soon, ticket);
    return;
  end if;
  ticket.priority := head.priority;
  if head.visible_at > ticket.enqueued_at then
    -- Who is cancelling it just now cannot know of this ticket; who does so later has to wait, and then hastens it.
    perform from penstock.grouped g
    where g.queue_id = _issue_ticket.queue_id and g.group_key = _issue_ticket.group_key and g.position = head.position for update skip locked;
    head_is_held := not found;
  end if;
  if head_is_held then
    perform penstock._put_scheduled(ticket.enqueued_at + soon, ticket);
  elsif head.visible_at > ticket.enqueued_at then
    perform penstock._put_scheduled(head.visible_at, ticket);
    perform penstock._wake_waiters(q, head.visible_at) from penstock.queue q where q.id = _issue_ticket.queue_id and (at_commit or not penstock._in_block());
  else
    perform penstock._put_ready(ticket, penstock._ticket_position(_issue_ticket.queue_id, ticket.priority, head.position));
    perform penstock._wake_waiters(q) from penstock.queue q where q.id = _issue_ticket.queue_id and (at_commit or not penstock._in_block());
  end if;
end $$;

-- A delayed message left its group without being claimed: if the ticket was waiting for it, it need not wait any more.
-- Uses scheduled_due.
create or replace function penstock._hasten_ticket(queue_id integer, group_key text, visible_at timestamptz) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
begin
  if visible_at > now_at then
    update penstock.scheduled s set due_at = now_at
    where s.due_at = _hasten_ticket.visible_at and s.queue_id = _hasten_ticket.queue_id and s.group_key = _hasten_ticket.group_key;
  end if;
end $$;

create or replace function penstock._group_head(queue_id integer, group_key text, after bigint, out "position" bigint, out priority smallint, out visible_at timestamptz)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  select g.position, g.priority, g.visible_at into _group_head.position, _group_head.priority, _group_head.visible_at
  from penstock.grouped g where g.queue_id = _group_head.queue_id and g.group_key = _group_head.group_key and g.position > after
  order by g.position limit 1;
end $$;

-- Where in its lane a ticket goes: by the age of the message it stands for, or a group would wait out the whole backlog
-- for each of its messages; but at the end where there is hardly any backlog, so that no floor has to be lowered.
create or replace function penstock._ticket_position(queue_id integer, priority smallint, head bigint) returns bigint language plpgsql as $$
#variable_conflict use_column
declare
  q     penstock.queue;
  floor regclass;
begin
  select * into q from penstock.queue t where t.id = _ticket_position.queue_id;
  floor := q.floors[array_position(q.priorities, _ticket_position.priority)];
  if pg_sequence_last_value('penstock.position') - coalesce(pg_sequence_last_value(floor), 0) < 2000 then
    return nextval('penstock.position');
  end if;
  -- A position that is lower than others of this transaction has to be announced by itself.
  perform penstock._lower_floor(q, _ticket_position.priority, head), penstock._forget_announcements();
  return head;
end $$;

create or replace function penstock._end_group(queue_id integer, group_key text, after bigint) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return false;
  end if;
  perform from penstock.message_group g where g.queue_id = _end_group.queue_id and g.group_key = _end_group.group_key for update skip locked;
  if not found or (penstock._group_head(_end_group.queue_id, _end_group.group_key, after)).position is not null then
    return false;
  end if;
  delete from penstock.message_group g where g.queue_id = _end_group.queue_id and g.group_key = _end_group.group_key;
  return true;
end $$;
