-- Drops the history that every lake has and that is older than `keep`, even if keep_history of its queues has not
-- passed. Only whole slots are dropped, and never the current one. turn starts a new slot first, so that all landed
-- history can be dropped. Returns the number of slots and of freed bytes. Locks: the lock of history, and ACCESS
-- EXCLUSIVE (NOWAIT) on the slots. Indexes: none.
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
      'at least one lake: run `penstock lake run` first');
  end if;
  perform pg_advisory_xact_lock({lock.history});
  if turn then
    select s into next from generate_series(0, {history.last_slot}) s
    where s not in (select slot from penstock.history_slot)
    order by {history.distance(s, pg_sequence_last_value('penstock.history_current'))} limit 1;
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
