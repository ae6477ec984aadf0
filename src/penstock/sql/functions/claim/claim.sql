-- Claims up to count messages under a lease: highest priority first, then in order of position. Large claims lease
-- messages in place, which writes a third of the WAL of moving them. Small claims, claims by id, and claims of
-- queues with limits, groups or several priorities move messages to leased_N, which is the shorter statement.
--
-- A claim that is alone in its transaction picks and takes messages in one statement. Our clients say so
-- (penstock.alone), and a prepared statement in autocommit begins its transaction at most 10 microseconds before it
-- runs. Any other claim picks them first, with _pick, if messages of the segment are leased in place. That takes a
-- subtransaction, and leaves rows that PostgreSQL cannot mark as dead in its indexes. 64 connections that read and
-- archive through pgmq are a third faster without it (bench commit, crowd_64_over_pgmq: 0.77 with, 1.03 without).
--
-- The planner settings keep index scans that the statistics of an empty table would talk the planner out of. They also
-- keep the plans: once a table is analyzed, a plan for the current values looks cheaper than the generic one, and
-- making it for every claim takes longer than the claim.
--
-- The variant _claim_by_id is for callers that settle by id alone, as the contracts of others do. Its messages always
-- move to leased_N, and its tokens are negative, so that the index leased_N_id has these leases and no others.
-- Locks: ROW EXCLUSIVE on the segments it looks at; the rows it takes, with SKIP LOCKED. Uses lane_N_order from the
-- floor on.
--
-- The function is longer than 120 lines because it contains the statements that move messages. As separate functions
-- they cost 15 us of 106 for each claim. Leasing in place has its own function: claims of 16 or more take longer, and a
-- new session compiles half the text.
--
-- take_by_moving: returns the rows that it has deleted. FOR UPDATE locks a row that another transaction has changed
-- since the statement began in its new version, which the statement does not see and so cannot take. Messages with a
-- group or a time to live are left to _claim_special: the queue may have got its first one since we looked at it. The
-- number of the claim is a subquery, so that a claim that finds nothing takes none: the sequence writes WAL once in 32
-- times, and a poll would then wait for the disk when it commits.
--: define take_by_moving as
with gone as (
  delete from penstock.lane_{slot} where ctid = any (case when places is null then array(
    select ctid from penstock.lane_{slot}
    where queue_id = lane_queue and priority = lane_rank and position >= lane_floor and hold = 0
      and (group_key, expires_at) is null
    order by position limit count for update skip locked) else places end)
  returning position, id, enqueued_at, first_claimed_at, queue_id, priority, attempt, max_attempts, body_slot, key,
    headers, payload, payload_bytes, last_error)
insert into penstock.leased_{slot} as l (token, lease_until, position, watched, id, enqueued_at, first_claimed_at,
  claimed_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, headers, payload, payload_bytes,
  last_error)
select (select {token.new_number} + history) + {slot}, until, position, key is not null, id, enqueued_at,
  coalesce(first_claimed_at, started), started, queue_id, priority, attempt + 1, max_attempts, body_slot,
  claim.worker, key, headers, payload, payload_bytes, last_error
from gone order by position
returning {lease.row(l, claim.queue, null::text)}
--: end
--: variant by_id
--:   claim.count < {hold_from} => true
--:   {token.new_number} => {token.new_number} + {token.by_id}
--:   penstock.claim( => penstock._claim_by_id(
--:   penstock._claim_special( => penstock._claim_special_by_id(
--:   claim. => _claim_by_id.
create or replace function penstock.claim(queue text, count integer default 1, lease_seconds integer default null,
  worker text default null)
returns setof penstock.lease language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  moves       boolean := claim.count < {hold_from};
  started     timestamptz := clock_timestamp();
  slot        integer;
  older       text;    -- the segments still to look at, the current one last; null: only the current one
  alone       boolean;
  lane_queue  integer;
  lane_rank   smallint;
  lane_floor  bigint;
  until       timestamptz;
  history     bigint;  -- history_bit, if the queue keeps history
  lease_hold  bigint;  -- what marks the messages that are leased in place
  tends       boolean; -- not the first claim of this session
  due         boolean;
  quiet       boolean; -- no lease expires before the next sweep: see _any_lease_ends
  empty       boolean; -- nothing was enqueued since the floor rose past everything
  nothing_due boolean; -- no message is due, and no lease has expired
  places      tid[];   -- the rows that _pick has locked, if the claim is not alone in its transaction
  n           integer;
  has_some    boolean;
begin
  -- The short path, for a queue with one priority and no limits or groups: one look at the queue and its registers, and
  -- one statement that takes and returns the messages. The first claim of a session leaves upkeep to others, because
  -- planning its statements takes longer than the claim. If upkeep is overdue by a second, one first claim in 16 does
  -- it. If it is overdue by ten seconds, every claim does.
  select q.id, q.priorities[1], {register.value(q.floors[1])}, ({ring.current({ring.value})})::integer,
    started + interval '1 second' * coalesce(claim.lease_seconds, q.lease_seconds)::float8,
    case when q.keep_history > 0 or q.has_members then bigint '{token.history_bit}' else bigint '0' end,
    current_setting('penstock.alone', true) = 'on',
    -- Due, or further ahead than it is ever set, because the clock was set back.
    abs(date_part('epoch', started) * float8 '1e6' + {timing.middle} - {register.value(q.sweep_register)}::float8)
      >= case when current_setting('penstock.tends', true) = 'on' then {timing.due} when random() < float8 '0.0625'
        then {timing.overdue} else {timing.long_overdue} end,
    case when current_setting('penstock.tends', true) = 'on' then true
      else set_config('penstock.tends', 'on', false) is null end,
    {sweep.is_quiet({register.value(q.sweep_register)})},
      {register.value(q.floors[1])} > {register.value('penstock.position')}
  into lane_queue, lane_rank, lane_floor, slot, until, history, alone, due, tends, quiet, empty
  from penstock.queue q
  where q.name = claim.queue and q.plain_out and pg_sequence_last_value(q.lanes_register) = bigint '{lanes.priority_0}'
    and count between 1 and {limit.messages}
    and coalesce(claim.lease_seconds, 1) between 1 and {limit.lease_seconds};
  if found then
    if due then
      perform penstock._in_passing(q) from penstock.queue q where q.id = lane_queue;
      lane_floor := (select {register.value(q.floors[1])} from penstock.queue q where q.id = lane_queue);
      quiet := false;
      empty := false;
    end if;
    -- With a floor in the share of positions of the current segment, the older ones need not be looked at. Next to a
    -- queue with a backlog in all eight segments, that would be most of the cost.
    if lane_floor <= {ring.current_from} then
      older := {ring.in_use_by_pattern({ring.text})};
      slot := left(older, 1);
    end if;
    if not (empty or moves) then
      lease_hold := penstock._hold(until, history <> bigint '0');
    end if;
    loop
      exit when empty;
      -- A claim that may not be alone in its transaction has _pick choose the rows.
      if alone is not true then
        places := case when statement_timestamp() > transaction_timestamp() + {timing.autocommit}
                         and pg_relation_size(('penstock.grant_' || slot::text)::regclass, 'main') > bigint '0'
                       then penstock._pick(slot, lane_queue, lane_rank, lane_floor, count, true, false) end;
      end if;
      if moves then
        --: branch on slot
        return query {take_by_moving};
        --: end
      else
        return query select * from penstock._take_in_place(slot, lane_queue, lane_rank, lane_floor, count, places,
          lease_hold, started, until, claim.queue, claim.worker);
      end if;
      get diagnostics n = row_count;
      if n > 0 and alone is not true and statement_timestamp() > transaction_timestamp() + {timing.block}
        then
        perform penstock._announce_leased(slot, lane_queue);
      end if;
      if n = count then
        return;
      end if;
      count := count - n;
      has_some := has_some or n > 0;
      older := nullif(substr(older, 2), '');
      exit when older is null;
      slot := left(older, 1);
    end loop;
    has_some := coalesce(has_some, false);
    -- A claim that found messages need not look each time for due messages and expired leases: that takes longer than
    -- the claim, and if messages come one by one, all claims are of this kind. The first claim after 5 ms looks, and so
    -- does a claim that found nothing.
    if has_some and not due then
      return;
    end if;
    -- Most polls of an empty queue end here: no lease expires before the next sweep, nothing is scheduled, and this
    -- transaction has enqueued nothing that only it can see.
    nothing_due := coalesce(current_setting('penstock.announced', true), '') = ''
      and pg_relation_size('penstock.scheduled', 'main') = bigint '0';
    if quiet and nothing_due then
      return;
    end if;
    -- The first claim of a session leaves the upkeep in _look_again to others, and asks only whether a lease has
    -- expired.
    if not tends and nothing_due then
      nothing_due := not penstock._any_expired(lane_queue,
        to_timestamp({register.value('penstock.lease_floor')}::float8 / float8 '1e6'), started, started);
    else
      nothing_due := false;
    end if;
    if not nothing_due then
      nothing_due := not penstock._look_again(lane_queue, count, has_some, tends, quiet);
    end if;
    -- The queue may have got its first group, time to live or second priority since we looked at it.
    if nothing_due and exists (select from penstock.queue q where q.id = lane_queue and q.plain_out
        and pg_sequence_last_value(q.lanes_register) = bigint '{lanes.priority_0}') then
      return;
    end if;
  end if;
  -- The long path: upkeep, priorities, limits, groups and dead letters, and a second look if there are too few
  -- messages.
  return query select * from penstock._claim_special(claim.queue, count, claim.lease_seconds, claim.worker,
    coalesce(has_some, false));
end $$;
