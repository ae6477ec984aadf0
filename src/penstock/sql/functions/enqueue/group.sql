-- Groups. The row in message_group exists as long as the group has a group token. The messages of a group are in the
-- order in which their transactions commit, and within a transaction in the order of enqueue: a deferred trigger gives
-- them their positions under a lock on that row (background/commit_joins.sql). So enqueuers of one group wait for each
-- other only while one of them commits. _lock_group locks a group. True if it began the group, which then has no group
-- token yet.
-- Locks: the row of the group until commit. Uses message_group_pkey.
create or replace function penstock._lock_group(queue_id integer, group_key text) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  loop
    insert into penstock.message_group (queue_id, group_key) values (_lock_group.queue_id, _lock_group.group_key)
      on conflict do nothing;
    if found then
      return true;
    end if;
    perform from penstock.message_group g where g.queue_id = _lock_group.queue_id
      and g.group_key = _lock_group.group_key for update;
    if found then
      return false;
    end if;
  end loop;
end $$;

-- Puts a new message into its group. Its position is negative until its transaction commits. Returns its id. Locks: the
-- new row. Indexes: none.
create or replace function penstock._join_group(m penstock.envelope, due timestamptz) returns bigint language plpgsql
  as $$
begin
  m.id := nextval('penstock.position');
  m := penstock._store_body(m);
  insert into penstock.grouped select -m.id, coalesce(due, m.enqueued_at), (m).*;
  perform penstock._announce('join', 'join', null, at_position => -m.id);
  return m.id;
end $$;

-- A dead letter joins its group again as the newest message, and keeps its id. Locks: the new row. Indexes: none.
create or replace function penstock._rejoin_group(m penstock.envelope, due timestamptz) returns void language plpgsql
  as $$
declare
  joining constant bigint := -nextval('penstock.position');
begin
  insert into penstock.grouped select joining, coalesce(due, m.enqueued_at), (m).*;
  perform penstock._announce('join', 'join', null, at_position => joining);
end $$;

-- Ends a group that has no messages. False if it has some, or if another transaction has locked it. Locks: the row of
-- the group until commit, with SKIP LOCKED. Uses message_group_pkey and grouped_order.
create or replace function penstock._end_group(queue_id integer, group_key text, after bigint) returns boolean
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return false;
  end if;
  perform from penstock.message_group g where g.queue_id = _end_group.queue_id and g.group_key = _end_group.group_key
    for update skip locked;
  if not found or (penstock._group_head(_end_group.queue_id, _end_group.group_key, after)).position is not null then
    return false;
  end if;
  delete from penstock.message_group g where g.queue_id = _end_group.queue_id and g.group_key = _end_group.group_key;
  return true;
end $$;

-- Returns the next message of a group after a position. Locks: ACCESS SHARE. Uses grouped_order.
create or replace function penstock._group_head(queue_id integer, group_key text, after bigint, out "position" bigint,
  out priority smallint, out visible_at timestamptz)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  select g.position, g.priority, g.visible_at into _group_head.position, _group_head.priority, _group_head.visible_at
  from penstock.grouped g where g.queue_id = _group_head.queue_id and g.group_key = _group_head.group_key
    and g.position > after
  order by g.position limit 1;
end $$;
