-- Drops the history that every lake has and that ended longer than `keep` ago, before keep_history of its queues is
-- over. Slots are dropped whole, never the one in use; turn begins a new one first, so that all of it may go. Returns
-- how many slots and how many bytes of disk were freed. Locks: the lock of history; ACCESS EXCLUSIVE (NOWAIT) on the
-- slots. Indexes: none.
create or replace function penstock.drop_landed(keep interval default '0', turn boolean default false)
returns table (slots integer, bytes bigint)
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
    perform penstock._fail_value('lake', 'none is registered',
      'a lake that history has landed in: run `penstock lake run` first');
  end if;
  perform pg_advisory_xact_lock({lock.history});
  if turn then
    select s into next from generate_series(0, 15) s where s not in (select slot from penstock.history_slot)
    order by (s - pg_sequence_last_value('penstock.history_current') + 16) % 16 limit 1;
    if next is not null then
      insert into penstock.history_slot values (next, clock_timestamp());
      perform setval('penstock.history_current', next);
    end if;
  end if;
  for h in select slot from (select slot, lead(begun_at) over (order by begun_at) as ended_at
    from penstock.history_slot) s
           where ended_at <= clock_timestamp() - keep loop
    size := pg_total_relation_size(format('penstock.history_log_%s', h.slot))
      + pg_total_relation_size(format('penstock.attempt_log_%s', h.slot));
    if penstock._drop_history(h.slot) then
      slots := slots + 1;
      bytes := bytes + size;
    end if;
  end loop;
  return next;
end $$;

-- The last transaction whose history may be missing, because its slot was dropped.
create or replace function penstock.history_dropped_through() returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(through_xid::text::bigint), 0) from penstock.history_dropped
$$;

-- Rows of a restored dump carry transaction ids of the server that wrote them. No snapshot of this server would see
-- those that are in its future for a long time. They get the id of this transaction. Returns how many.
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
