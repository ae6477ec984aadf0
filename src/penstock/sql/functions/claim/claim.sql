-- Claims up to count messages under a lease: highest priority first, then in order of position. Large claims lease
-- messages in place, which writes a third of what it takes to move them. Small claims, claims by id, and claims of
-- queues with limits, groups or several priorities move messages to leased_N, which is the shorter statement.
--
-- A claim that is alone in its transaction picks and takes messages in one statement. Our clients say so
-- (penstock.alone), and a prepared statement in autocommit begins its transaction at most 10 microseconds before it
-- runs. Any other claim picks them first, with _pick, if messages of the segment are leased in place. That takes a
-- subtransaction, and leaves rows that PostgreSQL cannot mark as dead in its indexes. 64 connections that read and
-- archive through pgmq are a third faster without it (bench commit, crowd_64_over_pgmq: 0.77 with, 1.03 without).
--
-- The planner settings keep index scans that the statistics of an empty table would talk the planner out of. They also
-- keep the plans: once a table is analyzed, a plan for the values at hand looks cheaper than the generic one, and
-- making it for every claim takes longer than the claim.
--
-- The variant _claim_by_id is for callers that settle by id alone, as the contracts of others do. Its messages always
-- move to leased_N, and its tokens are negative, so that the index leased_N_id has these leases and no others.
-- Locks: ROW EXCLUSIVE on the segments it looks at; the rows it takes, with SKIP LOCKED. Uses lane_N_order from the
-- floor on.
--
-- The statements that take messages from a segment are parts of this function and not separate: a call from
-- claim to a function costs 15 us of 106.
--
-- choose_first: a claim that may not be alone in its transaction has _pick choose the rows.
-- take_by_moving: returns the rows that it has deleted. FOR UPDATE locks a row that another transaction has changed
-- since the statement began in its new version, which the statement does not see and so cannot take. Messages with a
-- group or a time to live are left to _claim_special: the queue may have got its first one since we looked at it.
-- take_in_place: a token has room for 2^24 blocks. CASE keeps the planner from scanning the table by ctid.
--: define choose_first as
if alone is not true then
  places := case when statement_timestamp() > transaction_timestamp() + interval '10 microseconds'
                   and pg_relation_size('penstock.grant_{slot}', 'main') > bigint '0'
                 then penstock._pick_{slot}(lane_queue, lane_rank, lane_floor, count, true, false) end;
end if;
--: end
--: define take_by_moving as
with gone as (
  delete from penstock.lane_{slot} where ctid = any (case when places is null then array(
    select r.ctid from penstock.lane_{slot} r
    where r.queue_id = lane_queue and r.priority = lane_rank and r.position >= lane_floor and r.hold = 0
      and (r.group_key, r.expires_at) is null
    order by r.position limit count for update skip locked) else places end)
  returning position, id, enqueued_at, first_claimed_at, queue_id, priority, attempt, max_attempts, body_slot, key,
    headers, payload, payload_bytes, last_error)
insert into penstock.leased_{slot} as l (token, lease_until, position, watched, id, enqueued_at, first_claimed_at,
  claimed_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, headers, payload, payload_bytes,
  last_error)
select number + {slot}, until, t.position, t.key is not null, t.id, t.enqueued_at,
  coalesce(t.first_claimed_at, started), started, t.queue_id, t.priority, t.attempt + 1, t.max_attempts, t.body_slot,
  claim.worker, t.key, t.headers, t.payload, t.payload_bytes, t.last_error
from gone t order by t.position
returning {lease.row(l, claim.queue, null::text)}
--: end
--: define take_in_place as
with held as (
  update penstock.lane_{slot} l set hold = number
  where l.ctid = any (case when places is null then array(
    select r.ctid from penstock.lane_{slot} r
    where r.queue_id = lane_queue and r.priority = lane_rank and r.position >= lane_floor and r.hold = 0
      and (r.group_key, r.expires_at) is null and case when r.ctid < {token.place_limit} then true end
    order by r.position limit count for update skip locked) else places end)
  returning l.ctid as place, l.position, l.id, l.enqueued_at, l.attempt, l.max_attempts, l.body_slot, l.key, l.headers,
    l.payload, l.payload_bytes, l.last_error),
granted as (
  insert into penstock.grant_{slot} (lease_until, hold, claimed_at, queue_id, priority, first_position, last_position,
    worker)
  select until, number, started, lane_queue, lane_rank, min(h.position), max(h.position), claim.worker from held h
    having count(*) > 0)
select h.id, tokens_from + {slot} + penstock._held_at(h.place), claim.queue,
  case when h.body_slot is null then h.payload else penstock._body_json(h.body_slot, h.id) end,
  case when h.body_slot is null then h.payload_bytes else penstock._body_bytes(h.body_slot, h.id) end, h.headers,
  h.key, lane_rank::integer, null::text, h.attempt + 1, h.max_attempts::integer, h.enqueued_at, until,
  null::timestamptz, h.last_error, null::text
from held h order by h.position
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
  number      bigint;  -- the number of the claim, if its messages move, with history_bit; else their hold
  tends       boolean; -- not the first claim of this session
  due         boolean;
  quiet       boolean; -- no lease expires before the next sweep: see _any_lease_ends
  empty       boolean; -- nothing was enqueued since the floor rose past everything
  places      tid[];   -- the rows that _pick has locked, if the claim is not alone in its transaction
  tokens_from bigint;
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
    abs(date_part('epoch', started) * float8 '1e6' + float8 '5e5' - {register.value(q.sweep_register)}::float8)
      >= case when current_setting('penstock.tends', true) = 'on' then float8 '5e5' when random() < float8 '0.0625'
        then float8 '1.5e6' else float8 '1.05e7' end,
    case when current_setting('penstock.tends', true) = 'on' then true
      else set_config('penstock.tends', 'on', false) is null end,
    {sweep.is_quiet({register.value(q.sweep_register)})},
      {register.value(q.floors[1])} > pg_sequence_last_value('penstock.position')
  into lane_queue, lane_rank, lane_floor, slot, until, history, alone, due, tends, quiet, empty
  from penstock.queue q
  where q.name = claim.queue and q.plain_out and pg_sequence_last_value(q.lanes_register) = bigint '{lanes.priority_0}'
    and count between 1 and 10000 and coalesce(claim.lease_seconds, 1) between 1 and 43200;
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
    -- Not before the sweep: the sequence takes a transaction id once in 32 times, and then the claim may not sweep.
    if empty then
      null;
    elsif moves then
      number := {token.new_number} + history;
    else
      number := penstock._hold(until, history <> bigint '0');
      tokens_from := penstock._held_from(penstock._hold_mark(number));
    end if;
    loop
      exit when empty;
      if moves then
        --: branch on slot
        {choose_first}
        return query {take_by_moving};
        --: end
      else
        --: branch on slot
        {choose_first}
        return query {take_in_place};
        --: end
      end if;
      get diagnostics n = row_count;
      if n > 0 and alone is not true and statement_timestamp() > transaction_timestamp() + interval '30 microseconds'
        then
        perform penstock._announce('leased ' || lane_queue, 'leased', lane_queue);
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
    if quiet and coalesce(current_setting('penstock.announced', true), '') = ''
      and pg_relation_size('penstock.scheduled', 'main') = bigint '0' then
      return;
    end if;
    -- The queue may have got its first group, time to live or second priority since we looked at it.
    if not penstock._look_again(lane_queue, count, has_some, tends, quiet)
       and exists (select from penstock.queue q where q.id = lane_queue and q.plain_out
         and pg_sequence_last_value(q.lanes_register) = bigint '{lanes.priority_0}') then
      return;
    end if;
  end if;
  -- The long path: upkeep, priorities, limits, groups and dead letters, and a second look if there are too few
  -- messages.
  return query select * from penstock._claim_special(claim.queue, count, claim.lease_seconds, claim.worker,
    coalesce(has_some, false));
end $$;
