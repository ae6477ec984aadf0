-- count_finished adds what has ended since the last call to the counters of the queues, and returns all counters.
-- Messages that ended are rows of history, and failed attempts are rows of the attempt log. It counts the rows that
-- this statement sees and the last call did not see, so it misses none and counts none twice, even if transactions
-- are open. Only queues that keep history have counters.
-- If the last call was more than ten minutes ago, it starts again from now. That bounds the work of one call. The
-- counters keep their values then, so they never decrease.
-- A second call at the same time returns the counters as they are.
-- Locks: an advisory lock, and the changed rows. Uses history_log_xid and attempt_log_xid.
create or replace function penstock.count_finished() returns table (queue text, event text, count bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  seen pg_snapshot;
begin
  if pg_try_advisory_xact_lock({lock.count_finished}) then
    select c.snapshot into seen from penstock.counted_history c
    where c.database = penstock._database() and c.counted_at > clock_timestamp() - interval '10 minutes'
      and pg_snapshot_xmax(c.snapshot) <= pg_snapshot_xmax(pg_current_snapshot());
    -- One statement, so that the rows and the new snapshot agree.
    with counted as (
      insert into penstock.counted_history as c (snapshot, database, counted_at)
      values (pg_current_snapshot(), penstock._database(), clock_timestamp())
      on conflict (only_row) do update
      set snapshot = excluded.snapshot, database = excluded.database, counted_at = excluded.counted_at
    ), ended as (
      select h.queue, h.state as event from penstock.history_log h
      where h.xid >= pg_snapshot_xmax(seen) and h.xid < pg_snapshot_xmax(pg_current_snapshot())
      union all
      select h.queue, h.state from penstock.history_log h where h.xid = any (array(select pg_snapshot_xip(seen)))
    ), failed as (
      select a.queue, a.state, a.error from penstock.attempt_log a
      where a.xid >= pg_snapshot_xmax(seen) and a.xid < pg_snapshot_xmax(pg_current_snapshot())
      union all
      select a.queue, a.state, a.error from penstock.attempt_log a
      where a.xid = any (array(select pg_snapshot_xip(seen)))
    ), events as (
      select e.queue, e.event from ended e
      union all select f.queue, 'failed_attempt' from failed f
      union all select f.queue, 'expired_lease' from failed f where f.error = 'the lease expired'
      union all select f.queue, 'dead_letter' from failed f where f.state = 'dead'
    )
    insert into penstock.queue_counter as c (queue, event, count)
    select e.queue, e.event, count(*) from events e
    where exists (select from penstock.queue q where q.name = e.queue)
    group by e.queue, e.event
    on conflict (queue, event) do update set count = c.count + excluded.count;
    delete from penstock.queue_counter c where not exists (select from penstock.queue q where q.name = c.queue);
  end if;
  return query select c.queue, c.event, c.count from penstock.queue_counter c order by c.queue, c.event;
end $$;
