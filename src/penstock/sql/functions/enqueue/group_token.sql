-- Puts the group token of a group where the next message of the group belongs: the schedule or a lane. A group without
-- a next message ends, unless another transaction is enqueuing to it, or might be: then the group token is scheduled
-- for 20 ms later. That is also done if head_is_held, when a claim found the next message locked by a transaction that
-- may be cancelling or replacing it. In its lane the same claim would take the group token again and again.
-- Locks: the row of the group (SKIP LOCKED) if it ends. Uses grouped_order and message_group_pkey.
create or replace function penstock._issue_group_token(
  queue_id integer, group_key text, after bigint, head_is_held boolean default false, at_commit boolean default false)
returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  head   record;
  group_token penstock.envelope;
  soon   constant interval := interval '20 milliseconds';
begin
  group_token.id := after;
  group_token.enqueued_at := clock_timestamp();
  group_token.queue_id := _issue_group_token.queue_id;
  group_token.group_key := _issue_group_token.group_key;
  group_token.priority := 0;
  group_token.attempt := 0;
  group_token.max_attempts := 1;
  head := penstock._group_head(_issue_group_token.queue_id, _issue_group_token.group_key, after);
  if head.position is null then
    if penstock._in_block() and not at_commit then
      -- Ending it now would lock its row until this transaction ends. The name cannot be guessed. A caller who could
      -- make it count as announced would leave a group without a group token, and all its messages would wait forever.
      perform penstock._announce('end ' || gen_random_uuid(), 'end group', _issue_group_token.queue_id, null, after,
        _issue_group_token.group_key);
      return;
    elsif penstock._end_group(_issue_group_token.queue_id, _issue_group_token.group_key, after) then
      return;
    end if;
    perform penstock._put_scheduled(group_token.enqueued_at + soon, group_token);
    return;
  end if;
  group_token.priority := head.priority;
  if head.visible_at > group_token.enqueued_at then
    -- A transaction that is cancelling the message now does not see this group token. One that cancels it later waits
    -- for this lock and then hastens the group token.
    perform from penstock.grouped g
    where g.queue_id = _issue_group_token.queue_id and g.group_key = _issue_group_token.group_key
      and g.position = head.position for update skip locked;
    head_is_held := not found;
  end if;
  if head_is_held then
    perform penstock._put_scheduled(group_token.enqueued_at + soon, group_token);
  elsif head.visible_at > group_token.enqueued_at then
    perform penstock._put_scheduled(head.visible_at, group_token);
    perform penstock._wake_waiters(q, head.visible_at) from penstock.queue q where q.id = _issue_group_token.queue_id
      and (at_commit or not penstock._in_block());
  else
    perform penstock._put_ready(group_token, penstock._group_token_position(_issue_group_token.queue_id,
      group_token.priority, head.position));
    perform penstock._wake_waiters(q) from penstock.queue q where q.id = _issue_group_token.queue_id
      and (at_commit or not penstock._in_block());
  end if;
end $$;

-- A delayed message left its group without being claimed. A group token that waits for it is due now. Uses
-- scheduled_due. Locks: the row of the group token.
create or replace function penstock._hasten_group_token(queue_id integer, group_key text, visible_at timestamptz)
returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
begin
  if visible_at > now_at then
    update penstock.scheduled s set due_at = now_at
    where s.due_at = _hasten_group_token.visible_at and s.queue_id = _hasten_group_token.queue_id
      and s.group_key = _hasten_group_token.group_key;
  end if;
end $$;

-- The position of a group token in its lane: that of the message it stands for, or a group would wait for the whole
-- backlog with each of its messages. With hardly any backlog it goes to the end, so that no floor has to be lowered.
-- Locks: as _lower_floor. Uses queue_pkey.
create or replace function penstock._group_token_position(queue_id integer, priority smallint, head bigint)
returns bigint language plpgsql as $$
#variable_conflict use_column
declare
  q     penstock.queue;
  floor regclass;
begin
  select * into q from penstock.queue t where t.id = _group_token_position.queue_id;
  floor := q.floors[array_position(q.priorities, _group_token_position.priority)];
  if pg_sequence_last_value('penstock.position') - {register.value(floor)} < 2000 then
    return nextval('penstock.position');
  end if;
  -- A position that is lower than others of this transaction needs its own announcement.
  perform penstock._lower_floor(q, _group_token_position.priority, head), penstock._forget_announcements();
  return head;
end $$;
