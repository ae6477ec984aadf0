-- Does now what claims do in passing: timers, expiry, the ring, history, schedules. Nothing depends on it; a cron may call it.
-- full_pass looks at everything once, whatever the clocks say. Returns what it did.
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
  freed := penstock._tend_ring();
  return jsonb_build_object('returned', returned, 'segments_freed', freed) || done;
end $$;

-- The slow part, about once a minute: what expired unclaimed, old history, keys and groups left behind, schedules that
-- no worker fires, and segments that hold rows though the ring does not know of them (after a restore).
create or replace function penstock._upkeep() returns jsonb language plpgsql as $$
declare
  expired integer := penstock._expire(1000);
  adopted integer := penstock._adopt_segments();
  keys    integer;
  dropped integer := penstock._turn_history();
  fired   integer := (select f.fired from penstock.fire_schedules() f);
begin
  -- Messages whose transaction did not place them in their groups: its user had set penstock.announced.
  perform penstock._commit_joins(-1);
  delete from penstock.message_key where ctid = any (array(
    select k.ctid from penstock.message_key k
    where k.id < pg_sequence_last_value('penstock.position') - 100000 and (penstock._waiting_with_key(k.queue_id, k.key)).id is null
      and penstock._leased_with_key(k.queue_id, k.key) is null
    limit 100 for update skip locked));
  get diagnostics keys = row_count;
  return jsonb_build_object('expired', expired, 'segments_adopted', adopted, 'keys_forgotten', keys, 'history_slots_dropped', dropped,
                            'schedules_fired', fired);
end $$;

select penstock._unroll($unroll$
-- Ends messages whose time to live is over though nobody claimed them: a bounded piece. Uses the expiry indexes.
create or replace function penstock._expire(piece integer) returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  n      integer := 0;
begin
  n := n + (select count(penstock._remove_waiting(m.id, 'expired')) from (
    select id from penstock.scheduled t where t.expires_at <= now_at order by t.expires_at limit piece for update skip locked) m);
  n := n + (select count(penstock._remove_waiting(m.id, 'expired')) from (
    select id from penstock.grouped t where t.expires_at <= now_at order by t.expires_at limit piece for update skip locked) m);
  --[
  with gone as (
    delete from penstock.lane_{slot} where ctid = any (array(
      select t.ctid from penstock.lane_{slot} t where t.expires_at <= now_at and t.hold = 0 order by t.expires_at limit piece for update skip locked)) returning *)
  select n + count(penstock._finish((g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority, g.attempt,
      g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error)::penstock.envelope, 'expired', null)::text) into n
  from gone g;
  --]
  return n;
end $$;

-- Takes segments that hold rows into the ring, where it does not list them: a restored dump has the rows of one moment
-- and the registers of another.
create or replace function penstock._adopt_segments() returns integer language plpgsql as $$
declare
  n integer := 0;
begin
  --[
  if not {slot} = any (penstock._used_slots()) or {slot} = 0 and strpos(split_part(pg_sequence_last_value('penstock.ring')::text, '9', 2), '0') = 0 then
    if exists (select from penstock.lane_{slot}) or exists (select from penstock.leased_{slot}) or exists (select from penstock.body_{slot}) then
      perform penstock._reopen('{slot}');
      n := n + 1;
    end if;
  end if;
  --]
  return n;
end $$;
$unroll$);

-- Begins a new history slot once a day, or less often where queues keep more than a week, and truncates slots all of
-- whose rows are older than any queue keeps and have landed in every lake. Returns how many were truncated.
create or replace function penstock._turn_history() returns integer language plpgsql as $$
declare
  keep    interval := make_interval(days => coalesce((select max(keep_history) from penstock.queue), 0));
  period  interval := greatest(interval '1 day', keep / 12);
  newest  penstock.history_slot;
  h       record;
  next    integer;
  dropped integer := 0;
begin
  if not pg_try_advisory_xact_lock(1885695603, 2) then
    return 0;
  end if;
  select * into newest from penstock.history_slot order by begun_at desc limit 1;
  -- A slot may go when the slot after it was begun long enough ago: then nothing younger is in it.
  for h in select slot, ended_at from (select slot, lead(begun_at) over (order by begun_at) ended_at from penstock.history_slot) s
           where ended_at < clock_timestamp() - keep loop
    if penstock._drop_history(h.slot) then
      dropped := dropped + 1;
    end if;
  end loop;
  if newest.begun_at < clock_timestamp() - period then
    select s into next from generate_series(0, 15) s where s not in (select slot from penstock.history_slot) order by (s - newest.slot + 16) % 16 limit 1;
    if next is not null then
      insert into penstock.history_slot values (next, clock_timestamp());
      perform setval('penstock.history_current', next);
    end if;
  end if;
  return dropped;
end $$;
