-- Work that is done at commit. A transaction block may stay open for hours, so what would keep others waiting, or hide
-- messages from them, is left to the moment before it commits: a row in bell_N has a deferred trigger that does it. Each
-- kind of work is announced once for each transaction and lane: ten thousand messages cost one row and one trigger call.

-- Is this statement one of several in a transaction? Then its commit may be far away. PostgreSQL does not say, but the
-- transaction began with another message of the client. A prepared statement in autocommit begins its transaction 2 to 10
-- microseconds before it runs. A block that was begun through a local socket is at least 24 microseconds old. A wrong guess
-- costs time only: everything is found either way.
create or replace function penstock._in_block() returns boolean language sql stable as $$
  select statement_timestamp() > transaction_timestamp() + interval '30 microseconds'
$$;

-- Was this announced in this transaction? A savepoint that is rolled back takes the announcement back, as it does the
-- row. The setting is a hint: a user who sets it delays their own messages at most.
create or replace function penstock._is_announced(what text) returns boolean language plpgsql as $$
begin
  return strpos(coalesce(current_setting('penstock.announced', true), ''), ' ' || what || ' ') > 0;
end $$;

-- Has this transaction put messages into lanes of the queue?
create or replace function penstock._has_announced(queue_id integer) returns boolean language plpgsql as $$
begin
  return strpos(coalesce(current_setting('penstock.announced', true), ''), ' ' || queue_id || '/') > 0;
end $$;

-- From here on everything is announced again.
create or replace function penstock._forget_announcements() returns void language sql volatile as $$
  select set_config('penstock.announced', '', true)
$$;

select penstock._unroll($unroll$
-- Announces work for the commit, unless it was announced before.
create or replace function penstock._announce(what text, kind text, queue_id integer, priority integer default null, at_position bigint default null, group_key text default null)
returns void language plpgsql as $$
declare
  slot integer;
begin
  if penstock._is_announced(what) then
    return;
  end if;
  perform set_config('penstock.announced', coalesce(current_setting('penstock.announced', true), '') || ' ' || what || ' ', true);
  slot := penstock._hold_current();
  --[ slot
  insert into penstock.bell_{slot} (rung_at, kind, queue_id, priority, position, group_key)
  values (clock_timestamp(), kind, queue_id, priority, at_position, group_key);
  --]
end $$;
$unroll$);

-- Messages were put into a lane, at this position and above. In a transaction block, the rest is done at commit.
create or replace function penstock._announce_put(queue_id integer, priority integer, at_position bigint) returns void language plpgsql as $$
declare
  lane constant text := queue_id || '/' || priority;
begin
  if penstock._in_block() then
    perform penstock._announce(lane, 'put', queue_id, priority, at_position);
  elsif not penstock._is_announced(lane) then
    perform set_config('penstock.announced', coalesce(current_setting('penstock.announced', true), '') || ' ' || lane || ' ', true);
    perform penstock._commit_put(queue_id, priority, at_position);
  end if;
end $$;

-- Schedules a message, or a group's ticket.
create or replace function penstock._put_scheduled(due timestamptz, m penstock.envelope) returns void language plpgsql as $$
begin
  insert into penstock.scheduled select due, (m).*;
  if penstock._in_block() then
    -- Those that are due soon wake waiters, and are announced apart from those that are not.
    perform penstock._announce(case when due < clock_timestamp() + interval '10 seconds' then 'soon ' else 'later ' end || m.queue_id, 'scheduled', m.queue_id,
      at_position => (date_part('epoch', due) * 1e6)::bigint);
  end if;
end $$;

-- The deferred trigger of bell_N: does the work that a row announces.
create or replace function penstock._on_bell() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock._forget_announcements();
  case new.kind
    when 'put' then perform penstock._commit_put(new.queue_id, new.priority, new.position);
    when 'join' then perform penstock._commit_joins(new.position);
    when 'end group' then perform penstock._issue_ticket(new.queue_id, new.group_key, new.position, at_commit => true);
    when 'leased' then perform penstock._commit_timers(new.queue_id);
    when 'scheduled' then
      perform penstock._commit_timers();
      perform penstock._wake_waiters(q, to_timestamp(new.position / 1e6)) from penstock.queue q where q.id = new.queue_id;
    else perform penstock._commit_upkeep();
  end case;
  return null;
end $$;

-- The transaction joins the current generation of the queue and lowers the floor to its first position, so that the first claim
-- after the commit finds its messages: _join_generation, _lower_floor and _wake_waiters in one statement, which takes a third
-- of their time. Lock until the commit is visible: the generation, shared.
create or replace function penstock._commit_put(queue_id integer, priority integer, at_position bigint) returns void language plpgsql
set lock_timeout = 0 as $$   -- the sweep lock is held for microseconds: a commit must not fail for it
#variable_conflict use_column
declare
  below constant bigint := greatest(0, at_position - 1);
  over  bigint;
  q     record;
begin
  loop
    over := pg_sequence_last_value('penstock.flips_over');
    select pg_advisory_xact_lock_shared(1885695616 + (pg_sequence_last_value(t.generation_register) & 7)::integer, t.id),
      pg_advisory_lock(1885695608, t.id),
      case when pg_sequence_last_value(t.floor) > at_position then setval(t.floor, below + 1) end,
      case when pg_sequence_last_value(t.mark_register) > below then setval(t.mark_register, below) end,
      case when pg_sequence_last_value(t.settled_register) > below then setval(t.settled_register, below) end,
      case when pg_sequence_last_value(t.first_row_register) > below then setval(t.first_row_register, below) end,
      pg_advisory_unlock(1885695608, t.id),
      t.name, t.notify_register, t.waiting_register,
      pg_sequence_last_value(t.notify_register) <= date_part('epoch', clock_timestamp()) * 1e6 as wakes
    into q
    from (select id, name, generation_register, mark_register, settled_register, first_row_register, notify_register, waiting_register,
            floors[array_position(priorities, _commit_put.priority::smallint)] as floor
          from penstock.queue where id = _commit_put.queue_id) t;
    exit when pg_sequence_last_value('penstock.flips_begun') = over or q.name is null;
  end loop;
  if q.wakes then
    perform penstock._wake(q.notify_register, q.waiting_register, q.name);
  end if;
end $$;

-- Messages were scheduled, or leased. If the transaction was open for long, the timers' floors are lowered to when it
-- began: everything it has written is due later than that. Lock until the commit is visible: (1885695609, 0), shared.
create or replace function penstock._commit_timers(queue_id integer default null) returns void language plpgsql as $$
declare
  began_us constant bigint := date_part('epoch', transaction_timestamp()) * 1e6;
begin
  if penstock._is_long() then
    perform pg_advisory_xact_lock_shared(1885695609, 0);
    perform pg_advisory_lock(1885695609, 1),
      setval('penstock.due_floor', least(pg_sequence_last_value('penstock.due_floor'), began_us)),
      setval('penstock.lease_floor', least(pg_sequence_last_value('penstock.lease_floor'), began_us)),
      pg_advisory_unlock(1885695609, 1);
    perform penstock._forget_quiet(_commit_timers.queue_id, '-infinity');
  end if;
end $$;

-- Has this transaction been open for so long that timers may have passed what it has scheduled or leased?
create or replace function penstock._is_long() returns boolean language sql volatile as $$
  select transaction_timestamp() < clock_timestamp() - interval '500 milliseconds'
$$;

-- Messages joined groups. They get their positions here, so that a group is in the order of commits. Everybody locks groups in
-- the same order, and waits for nothing else from here on: no two transactions can deadlock. below: their
-- positions until now are negative, and this is the first of them.
-- Locks until commit: the rows of the groups. Uses grouped_joining, grouped_order.
create or replace function penstock._commit_joins(below bigint) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  joined record;
  begun  boolean;
  first  bigint;
begin
  for joined in select distinct g.queue_id, g.group_key from penstock.grouped g where g.position < 0 and g.position <= below order by 1, 2 loop
    begun := penstock._lock_group(joined.queue_id, joined.group_key);
    with placed as (
      select n.place, nextval('penstock.position') as position from (
        select g.ctid as place from penstock.grouped g
        where g.queue_id = joined.queue_id and g.group_key = joined.group_key and g.position <= below
        order by g.position desc offset 0) n),
    moved as (
      update penstock.grouped g set position = p.position from placed p where g.ctid = p.place returning g.position)
    select min(m.position) into first from moved m;
    if begun then
      perform penstock._issue_ticket(joined.queue_id, joined.group_key, first - 1, at_commit => true);
    end if;
  end loop;
end $$;

do $triggers$
begin
  for slot in 0..8 loop
    if not exists (select from pg_trigger where tgrelid = format('penstock.bell_%s', slot)::regclass and tgname = 'at_commit') then
      execute format('create constraint trigger at_commit after insert on penstock.bell_%s deferrable initially deferred
                        for each row execute function penstock._on_bell()', slot);
    end if;
  end loop;
end $triggers$;
