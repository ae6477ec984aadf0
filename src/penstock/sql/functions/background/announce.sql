-- Announces work for the commit (background/run_deferred.sql), unless this transaction has announced it already.
-- Locks: ROW EXCLUSIVE on the current segment until commit. Indexes: none.
create or replace function penstock._announce(what text, kind text, queue_id integer, priority integer default null,
  at_position bigint default null, group_key text default null)
returns void language plpgsql as $$
declare
  slot integer;
begin
  if penstock._is_announced(what) then
    return;
  end if;
  perform set_config('penstock.announced', coalesce(current_setting('penstock.announced', true), '') || ' ' || what
    || ' ', true);
  slot := penstock._lock_current();
  --: branch on slot
  insert into penstock.deferred_{slot} (announced_at, kind, queue_id, priority, position, group_key)
  values (clock_timestamp(), kind, queue_id, priority, at_position, group_key);
  --: end
end $$;

-- Announces messages that were put into a lane, at this position and above. Outside a transaction block the work is
-- done at once. Locks: as _announce or _commit_put. Indexes: none.
create or replace function penstock._announce_put(queue_id integer, priority integer, at_position bigint) returns void
language plpgsql as $$
declare
  lane constant text := queue_id::text || '/' || priority::text;
begin
  if penstock._in_block() then
    perform penstock._announce(lane, 'put', queue_id, priority, at_position);
  elsif not penstock._is_announced(lane) then
    perform set_config('penstock.announced', coalesce(current_setting('penstock.announced', true), '') || ' ' || lane
      || ' ', true);
    perform penstock._commit_put(queue_id, priority, at_position);
  end if;
end $$;

-- Announces that a claim in a transaction block has leased messages of a segment, whose lock it already has. This is
-- _announce with fewer statements, because it is part of the first claim of many sessions. Rows of the overflow segment
-- would never be truncated, so they go to the current one.
-- Locks: ROW EXCLUSIVE on deferred_N until commit. Indexes: none.
create or replace function penstock._announce_leased(slot integer, queue_id integer) returns void language plpgsql as $$
declare
  announced constant text := coalesce(current_setting('penstock.announced', true), '');
  what      constant text := ' leased ' || queue_id::text || ' ';
begin
  if strpos(announced, what) > 0 then
    return;
  end if;
  perform set_config('penstock.announced', announced || what, true);
  if slot = 0 then
    slot := penstock._lock_current();
  end if;
  --: branch on slot
  insert into penstock.deferred_{slot} (announced_at, kind, queue_id) values (clock_timestamp(), 'leased', queue_id);
  --: end
end $$;

-- Was this announced in this transaction? Rolling back to a savepoint undoes the announcement with the row. The setting
-- is a hint: a user who sets it only delays their messages.
create or replace function penstock._is_announced(what text) returns boolean language plpgsql as $$
begin
  return strpos(coalesce(current_setting('penstock.announced', true), ''), ' ' || what || ' ') > 0;
end $$;

-- Has this transaction put messages into lanes of the queue?
create or replace function penstock._has_announced(queue_id integer) returns boolean language plpgsql as $$
begin
  return strpos(coalesce(current_setting('penstock.announced', true), ''), ' ' || queue_id::text || '/') > 0;
end $$;

-- From here on everything is announced again.
create or replace function penstock._forget_announcements() returns void language sql volatile as $$
  select set_config('penstock.announced', '', true)
$$;
