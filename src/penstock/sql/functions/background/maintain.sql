-- maintain does the upkeep of claims now: timers, expiry, the ring, history, schedules. It also records the charts.
-- Nothing depends on it. A cron job may call it. full_pass does all of it once, even if it is not due. Returns the
-- number of rows or segments for each kind of upkeep.
-- Locks and indexes: as _run_timers, _tend_ring, _upkeep and continue_cancels.
create or replace function penstock.maintain(full_pass boolean default false) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  moved    integer;
  returned integer := 0;
  expired  integer;
  freed    integer;
  done     jsonb;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform penstock._fail_value('isolation level', current_setting('transaction_isolation'), 'read committed');
  end if;
  perform penstock._notice_step((date_part('epoch', clock_timestamp()) * 1e6)::bigint);
  perform penstock._redate();
  if full_pass then
    perform setval('penstock.timer_rescan_at', 0);
  end if;
  for round in 1 .. 100 loop
    moved := penstock._run_timers(null, 500);
    returned := returned + moved;
    exit when moved = 0;
  end loop;
  if full_pass then
    perform penstock._rescan(penstock._with_lanes(q), true) from penstock.queue q;
  end if;
  done := penstock._upkeep();
  perform penstock.continue_cancels(1000);
  freed := penstock._tend_ring();
  return jsonb_build_object('returned', returned, 'segments_freed', freed,
    'chart_points_recorded', penstock.record_charts()) || done;
end $$;

-- The slow part, about once a minute: expired messages, old history, unused keys and groups, schedules and batches that
-- no worker looks at, and segments that hold rows though the ring does not list them (after a restore). Locks: the rows
-- of unused keys, with SKIP LOCKED, otherwise as the functions that it calls. Scans message_key.
create or replace function penstock._upkeep() returns jsonb language plpgsql as $$
declare
  expired integer := penstock._expire(1000);
  adopted integer := penstock._adopt_segments();
  keys    integer;
  dropped integer := penstock._turn_history();
  staged  integer := penstock._forget_staged();
  purged  integer := penstock._forget_purged();
  fired   integer := (select f.fired from penstock.fire_schedules() f);
  batches integer := penstock.finish_batches();
begin
  -- Messages that their transaction has not put into their groups, because its user had set penstock.announced.
  perform penstock._commit_joins(-1);
  delete from penstock.message_key where ctid = any (array(
    select k.ctid from penstock.message_key k
    where k.id < pg_sequence_last_value('penstock.position') - {ring.old_key}
      and (penstock._waiting_with_key(k.queue_id, k.key)).id is null
      and penstock._leased_with_key(k.queue_id, k.key) is null
    limit 100 for update skip locked));
  get diagnostics keys = row_count;
  perform penstock._drop_batches(100), penstock._drop_progress(1000);
  return jsonb_build_object('expired', expired, 'segments_adopted', adopted, 'keys_forgotten', keys,
                            'history_slots_dropped', dropped, 'schedules_fired', fired,
                            'staged_pieces_dropped', staged, 'purged_forgotten', purged,
                            'batches_finished', batches);
end $$;

-- Ends messages whose time to live is over and that were not claimed, a bounded number of them. Uses the expiry
-- indexes. Locks: the rows, with SKIP LOCKED. Uses scheduled_expiry, grouped_expiry and lane_N_expiry.
create or replace function penstock._expire(piece integer) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  n      integer := 0;
begin
  n := n + (select count(penstock._remove_waiting(m.id, 'expired')) from (
    select id from penstock.scheduled t where t.expires_at <= now_at order by t.expires_at limit piece
      for update skip locked) m);
  n := n + (select count(penstock._remove_waiting(m.id, 'expired')) from (
    select id from penstock.grouped t where t.expires_at <= now_at order by t.expires_at limit piece
      for update skip locked) m);
  --: for each segment
  with gone as (
    delete from penstock.lane_{slot} where ctid = any (array(
      select t.ctid from penstock.lane_{slot} t where t.expires_at <= now_at and t.hold = 0 order by t.expires_at
        limit piece for update skip locked)) returning *)
  select n + count(penstock._finish(({envelope.columns(g)})::penstock.envelope, 'expired', null)::text) into n
  from gone g;
  --: end
  return n;
end $$;
