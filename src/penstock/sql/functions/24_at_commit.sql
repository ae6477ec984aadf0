-- What is done at commit, by deferred triggers: just before the transaction becomes visible to others, and in its place.
-- Each kind of work is announced once for each transaction, so that ten thousand messages cost one trigger call.

-- True for the first caller of a transaction with this text. A savepoint that is rolled back takes the announcement
-- back, as it does the rows. The setting is a hint: whoever sets it delays their own messages at most.
create or replace function penstock._announces(what text) returns boolean language sql volatile as $$
  select case when strpos(coalesce(current_setting('penstock.announced', true), ''), ' ' || what || ' ') > 0 then false
              else set_config('penstock.announced', coalesce(current_setting('penstock.announced', true), '') || ' ' || what || ' ', true) <> '' end
$$;

create or replace function penstock._has_announced() returns boolean language sql stable as $$
  select coalesce(current_setting('penstock.announced', true), '') <> ''
$$;

-- Whatever this transaction does from here on is announced again.
create or replace function penstock._forget_announcements() returns void language sql volatile as $$
  select set_config('penstock.announced', '', true)
$$;

-- Is this statement one of several in a transaction? Then its commit may be hours away.
create or replace function penstock._in_block() returns boolean language sql stable as $$
  select statement_timestamp() <> transaction_timestamp()
$$;

-- Has this transaction been open for so long that timers may have passed what it has scheduled or leased?
create or replace function penstock._is_long() returns boolean language sql volatile as $$
  select transaction_timestamp() < clock_timestamp() - interval '500 milliseconds'
$$;

-- Messages were put into a lane: by a transaction block, or with a position that is not their id. new is the first of them.
-- The transaction joins the current generation of the queue and lowers the floor to its first position, so that the
-- first claim after the commit finds all of them. Locks until the commit is visible: the generation, shared.
create or replace function penstock._on_put() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q penstock.queue;
begin
  perform penstock._forget_announcements();
  select * into q from penstock.queue t where t.id = new.queue_id;
  if not found then
    return null;
  end if;
  perform penstock._join_generation(q.id, q.generation_register);
  perform penstock._lower_floor(q, new.priority,
    case when pg_sequence_last_value('penstock.ring') % 10 = tg_argv[0]::integer then new.position else least(new.position, penstock._current_from()) end);
  perform penstock._wake_waiters(q);
  return null;
end $$;

-- Messages were scheduled, or leased, by a transaction block. If it was open for long, the timers' floors are lowered to
-- when it began: everything it has written is due later than that. Lock until the commit is visible: (1885695609, 0), shared.
create or replace function penstock._on_timer() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  began_us constant bigint := date_part('epoch', transaction_timestamp()) * 1e6;
begin
  perform penstock._forget_announcements();
  if penstock._is_long() then
    perform pg_advisory_xact_lock_shared(1885695609, 0);
    perform pg_advisory_lock(1885695609, 1),
      setval('penstock.due_floor', least(pg_sequence_last_value('penstock.due_floor'), began_us)),
      setval('penstock.lease_floor', least(pg_sequence_last_value('penstock.lease_floor'), began_us)),
      pg_advisory_unlock(1885695609, 1);
  end if;
  if tg_table_name = 'scheduled' then
    perform penstock._wake_waiters(q, new.due_at) from penstock.queue q where q.id = new.queue_id;
  end if;
  return null;
end $$;

-- Messages joined groups. They get their positions here, so that a group is in the order of commits. Groups are locked one
-- after the other in the same order by everybody, and nothing else is waited for from here on: no two transactions can deadlock.
-- Locks until commit: the rows of the groups. Uses grouped_joining, grouped_order.
create or replace function penstock._on_joining() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  joined record;
  begun  boolean;
  first  bigint;
begin
  perform penstock._forget_announcements();
  for joined in select distinct g.queue_id, g.group_key from penstock.grouped g where g.position <= new.position order by 1, 2 loop
    begun := penstock._lock_group(joined.queue_id, joined.group_key);
    with placed as (
      select n.place, nextval('penstock.position') as position from (
        select g.ctid as place from penstock.grouped g
        where g.queue_id = joined.queue_id and g.group_key = joined.group_key and g.position <= new.position
        order by g.position desc offset 0) n),
    moved as (
      update penstock.grouped g set position = p.position from placed p where g.ctid = p.place returning g.position)
    select min(m.position) into first from moved m;
    if begun then
      perform penstock._issue_ticket(joined.queue_id, joined.group_key, first - 1, at_commit => true);
    end if;
  end loop;
  return null;
end $$;

-- The last message of a group was settled by a transaction block. Enqueuers would have to wait for it if it ended the group before.
create or replace function penstock._on_group_end() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock._forget_announcements();
  perform penstock._issue_ticket(new.queue_id, new.group_key, new.after_position, at_commit => true);
  return null;
end $$;

do $triggers$
declare
  t record;
begin
  for t in
    select 'scheduled' as name, 'at_commit' as trigger_name, 'penstock._in_block() and penstock._announces(''scheduled '' || new.queue_id)' as condition,
      '_on_timer()' as action
    union all
    select 'grouped', 'at_commit', 'new.position < 0 and penstock._announces(''joining'')', '_on_joining()'
    union all
    select kind || '_' || slot, 'at_commit', 'penstock._in_block() and penstock._announces(''leased'')', '_on_timer()'
    from generate_series(0, 8) slot cross join unnest(array['leased', 'grant']) kind
    union all
    select 'lane_' || slot, 'at_commit', '(penstock._in_block() or new.position <> new.id) and penstock._announces(new.queue_id || ''/'' || new.priority)',
      format('_on_put(%s)', slot)
    from generate_series(0, 8) slot
    union all
    select 'bell_' || slot, 'end_group', 'new.queue_id is not null', '_on_group_end()' from generate_series(0, 8) slot
    union all
    select 'bell_' || slot, 'upkeep', 'new.queue_id is null', '_on_bell()' from generate_series(0, 8) slot
  loop
    if not exists (select from pg_trigger where tgrelid = ('penstock.' || t.name)::regclass and tgname = t.trigger_name) then
      execute format('create constraint trigger %I after insert on penstock.%I deferrable initially deferred for each row when (%s) execute function penstock.%s',
        t.trigger_name, t.name, t.condition, t.action);
    end if;
  end loop;
end $triggers$;
