-- What `penstock lake` says to PostgreSQL. Lakes are few and their rows change once a batch; nothing here is on the way
-- of a message.

-- Makes the lake known: from now on history is kept until it has landed there.
create or replace function penstock.register_lake(name text, path text, format text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.lake (name, path, format) values (register_lake.name, register_lake.path, register_lake.format)
  on conflict (name) do update set path = excluded.path, format = excluded.format
  where (lake.path, lake.format) is distinct from (excluded.path, excluded.format)
$$;

-- Forgets a lake: history no longer waits for it. False if there was none.
create or replace function penstock.release_lake(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  delete from penstock.lake l where l.name = release_lake.name;
  return found;
end $$;

-- Which database this is: a copy of it has the same rows, and transaction ids of its own.
create or replace function penstock._database() returns text language sql stable as $$
  select system_identifier || '/' || (select oid from pg_database where datname = current_database()) from pg_control_system()
$$;

-- What a lake has seen, as a snapshot of this database; nothing, if that was another, or one that has since gone back.
create or replace function penstock._seen(l penstock.lake, seen pg_snapshot) returns pg_snapshot language sql stable as $$
  select case when l.database = penstock._database() and pg_snapshot_xmax(seen) <= pg_snapshot_xmax(pg_current_snapshot()) then seen else '1:1:' end
$$;

-- Notes how far a lake has come, and what the last batch had. Locks the lake's row.
create or replace function penstock.lake_landed(name text, history pg_snapshot, attempts pg_snapshot, rows bigint, bytes bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.lake l set database = penstock._database(), history_snapshot = history, attempts_snapshot = attempts, landed_at = clock_timestamp(),
    landed_rows = l.landed_rows + rows, landed_bytes = l.landed_bytes + bytes
  where l.name = lake_landed.name
$$;

create or replace function penstock.lake_verified(name text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.lake l set verified_at = clock_timestamp() where l.name = lake_verified.name
$$;

-- How much history a lake lacks: rows (counted up to a limit) and the oldest of them. By history_log_xid.
create or replace function penstock.lake_lag(name text, most integer default 100000) returns table (rows bigint, oldest_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  seen pg_snapshot := (select penstock._seen(l, l.history_snapshot) from penstock.lake l where l.name = lake_lag.name);
begin
  return query select count(*), min(finished_at) from (
    (select finished_at from penstock.history_log where xid >= pg_snapshot_xmax(seen) order by xid, id limit most)
    union all
    (select finished_at from penstock.history_log where xid = any (array(select pg_snapshot_xip(seen))) limit most)) missing;
end $$;

-- Whether every lake has all that a slot holds. By the slot's own indexes.
create or replace function penstock._has_landed(slot integer) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  l     penstock.lake;
  lacks boolean;
begin
  for l in select * from penstock.lake loop
    execute format('select exists (select from penstock.history_log_%1$s where xid >= pg_snapshot_xmax($1))
                        or exists (select from penstock.history_log_%1$s where xid = any (array(select pg_snapshot_xip($1))))
                        or exists (select from penstock.attempt_log_%1$s where xid >= pg_snapshot_xmax($2))
                        or exists (select from penstock.attempt_log_%1$s where xid = any (array(select pg_snapshot_xip($2))))', slot)
      into lacks using penstock._seen(l, l.history_snapshot), penstock._seen(l, l.attempts_snapshot);
    if lacks then
      return false;
    end if;
  end loop;
  return true;
end $$;

-- The last transaction whose history may be missing, because its slot was dropped.
create or replace function penstock.history_dropped_through() returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(through_xid::text::bigint), 0) from penstock.history_dropped
$$;

-- Truncates a slot of history, if every lake has what it holds. False if not, or if somebody is reading it: another time.
create or replace function penstock._drop_history(slot integer) returns boolean language plpgsql as $$
declare
  through xid8;
begin
  if not penstock._has_landed(slot) then
    return false;
  end if;
  execute format('lock table penstock.history_log_%1$s, penstock.attempt_log_%1$s in access exclusive mode nowait', slot);
  if not penstock._has_landed(slot) then
    return false;   -- somebody has just written to it
  end if;
  execute format('select xid from ((select xid from penstock.history_log_%1$s order by xid desc limit 1)
                         union all (select xid from penstock.attempt_log_%1$s order by xid desc limit 1)) last order by xid desc limit 1', slot) into through;
  if through is not null then
    insert into penstock.history_dropped (slot, through_xid) values (_drop_history.slot, through);
  end if;
  execute format('truncate penstock.history_log_%1$s, penstock.attempt_log_%1$s', slot);
  delete from penstock.history_slot s where s.slot = _drop_history.slot;
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Drops the history that every lake has and that ended longer than `keep` ago, before its queues' keep_history is over.
-- Slots are dropped whole, never the one in use; turn begins a new one first, so that all there is may go.
-- Returns how many slots went, and how many bytes of disk.
create or replace function penstock.drop_landed(keep interval default '0', turn boolean default false) returns table (slots integer, bytes bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  h    record;
  size bigint;
  next integer;
begin
  slots := 0;
  bytes := 0;
  if not exists (select from penstock.lake) then
    perform penstock._fail_value('lake', 'none is registered', 'a lake that history has landed in: run `penstock lake run` first');
  end if;
  perform pg_advisory_xact_lock(1885695603, 2);
  if turn then
    select s into next from generate_series(0, 15) s where s not in (select slot from penstock.history_slot)
    order by (s - pg_sequence_last_value('penstock.history_current') + 16) % 16 limit 1;
    if next is not null then
      insert into penstock.history_slot values (next, clock_timestamp());
      perform setval('penstock.history_current', next);
    end if;
  end if;
  for h in select slot from (select slot, lead(begun_at) over (order by begun_at) as ended_at from penstock.history_slot) s
           where ended_at <= clock_timestamp() - keep loop
    size := pg_total_relation_size(format('penstock.history_log_%s', h.slot)) + pg_total_relation_size(format('penstock.attempt_log_%s', h.slot));
    if penstock._drop_history(h.slot) then
      slots := slots + 1;
      bytes := bytes + size;
    end if;
  end loop;
  return next;
end $$;

-- Brings rows of gold in: those that are new or differ. rows are JSON objects by column name. Returns how many changed.
-- What is by minute is kept for 35 days.
create or replace function penstock.publish_gold(gold text, rows jsonb) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  target  regclass := case when gold in ('queue_minute', 'queue_day', 'error_day', 'worker_minute') then ('penstock.' || gold)::regclass end;
  key     text;
  columns text;
  values  text;
  changed bigint;
begin
  if target is null then
    perform penstock._fail_value('gold', gold, 'queue_minute, queue_day, error_day or worker_minute');
  end if;
  select string_agg(quote_ident(attname), ', '), string_agg('excluded.' || quote_ident(attname), ', ') into columns, values
  from pg_attribute where attrelid = target and attnum > 0 and not attisdropped;
  select string_agg(quote_ident(a.attname), ', ') into key
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey) where i.indrelid = target and i.indisprimary;
  execute format('insert into %1$s as g (%2$s) select %2$s from jsonb_populate_recordset(null::%1$s, $1)
    on conflict (%3$s) do update set (%2$s) = (%4$s) where (%5$s) is distinct from (%4$s)',
    target, columns, key, values, 'g.' || replace(columns, ', ', ', g.')) using rows;
  get diagnostics changed = row_count;
  return changed;
end $$;

create or replace function penstock.lake_published(name text, version bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from penstock.queue_minute where minute < now() - interval '35 days';
  delete from penstock.queue_quarter where quarter < now() - interval '35 days';
  delete from penstock.worker_minute where minute < now() - interval '35 days';
  update penstock.lake l set published_version = version, published_at = clock_timestamp() where l.name = lake_published.name
$$;

-- Rows that came with a restored dump carry transaction ids of the server they were written on. Those that lie in this
-- server's future would be seen by no snapshot for a long time: they get the id of this transaction. Returns how many.
create or replace function penstock.restamp_history() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  future xid8 := pg_snapshot_xmax(pg_current_snapshot());
  n      bigint;
  m      bigint;
begin
  update penstock.history_log set xid = pg_current_xact_id() where xid >= future;
  get diagnostics n = row_count;
  update penstock.attempt_log set xid = pg_current_xact_id() where xid >= future;
  get diagnostics m = row_count;
  delete from penstock.history_dropped where through_xid >= future;
  return n + m;
end $$;
