-- Time slots of history. _turn_history begins a new slot once a day, or less often if a queue keeps more than a week of
-- history. It truncates slots whose rows are all older than any queue keeps, and have landed in every lake. Returns how
-- many.
-- Locks: the lock of history until commit; ACCESS EXCLUSIVE (NOWAIT) on the slots it truncates. Uses
-- history_log_N_xid_id_idx.
create or replace function penstock._turn_history() returns integer language plpgsql as $$
declare
  keep    interval := make_interval(days => coalesce((select max(keep_history) from penstock.queue), 0));
  period  interval := greatest(interval '1 day', keep / 12);
  newest  penstock.history_slot;
  h       record;
  next    integer;
  dropped integer := 0;
begin
  if not pg_try_advisory_xact_lock({lock.history}) then
    return 0;
  end if;
  select * into newest from penstock.history_slot order by begun_at desc limit 1;
  -- A slot can be dropped if the next one was started long enough ago, because all its rows are older.
  for h in select slot, ended_at from (select slot, lead(begun_at) over (order by begun_at) ended_at
    from penstock.history_slot) s
           where ended_at < clock_timestamp() - keep loop
    if penstock._drop_history(h.slot) then
      dropped := dropped + 1;
    end if;
  end loop;
  if newest.begun_at < clock_timestamp() - period then
    select s into next from generate_series(0, {history.last_slot}) s
      where s not in (select slot from penstock.history_slot)
      order by {history.distance(s, newest.slot)} limit 1;
    if next is not null then
      insert into penstock.history_slot values (next, clock_timestamp());
      perform setval('penstock.history_current', next);
    end if;
  end if;
  return dropped;
end $$;

-- Truncates a time slot if every lake has its rows. False if not, or if it is in use: then another time. Locks: ACCESS
-- EXCLUSIVE (NOWAIT) on the two tables of the slot until commit. Uses their indexes on xid.
create or replace function penstock._drop_history(slot integer) returns boolean language plpgsql as $$
declare
  through xid8;
begin
  if not penstock._has_landed(slot) then
    return false;
  end if;
  execute format('lock table penstock.history_log_%1$s, penstock.attempt_log_%1$s in access exclusive mode nowait',
    slot);
  if not penstock._has_landed(slot) then
    return false;   -- a transaction has just written to it
  end if;
  execute format('select xid from ((select xid from penstock.history_log_%1$s order by xid desc limit 1)
                         union all (select xid from penstock.attempt_log_%1$s order by xid desc limit 1)) last
                           order by xid desc limit 1', slot) into through;
  if through is not null then
    insert into penstock.history_dropped (slot, through_xid) values (_drop_history.slot, through);
  end if;
  execute format('truncate penstock.history_log_%1$s, penstock.attempt_log_%1$s', slot);
  delete from penstock.history_slot s where s.slot = _drop_history.slot;
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Does every lake have all rows of a time slot? Uses the indexes of the slot. Locks: ACCESS SHARE.
create or replace function penstock._has_landed(slot integer) returns boolean language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  l     penstock.lake;
  lacks boolean;
begin
  for l in select * from penstock.lake loop
    execute format('select exists (select from penstock.history_log_%1$s where xid >= pg_snapshot_xmax($1))
                        or exists (select from penstock.history_log_%1$s
                          where xid = any (array(select pg_snapshot_xip($1))))
                        or exists (select from penstock.attempt_log_%1$s where xid >= pg_snapshot_xmax($2))
                        or exists (select from penstock.attempt_log_%1$s
                          where xid = any (array(select pg_snapshot_xip($2))))', slot)
      into lacks using penstock._seen(l, l.history_snapshot), penstock._seen(l, l.attempts_snapshot);
    if lacks then
      return false;
    end if;
  end loop;
  return true;
end $$;
