-- A number for a claim: its tokens are this, and 16 if the queue keeps history, and the segment. A sequence may give a number
-- once more after a crash, to a claim whose commit did not wait for the disk: the chance in it keeps whoever holds the
-- first one's leases from settling the second one's.
-- penstock.claim has the same expression in its statement: to look up and expand a function costs a new session 0.2 ms.
create or replace function penstock._lease_number() returns bigint language sql as $$
  select (nextval('penstock.lease_number') * 4096 + (random() * float8 '4095')::integer) * 32
$$;

-- Claims up to count messages under a lease: highest priority first, then in order of position. Many at
-- once are held where they are, which writes a third of what it takes to move them; a few at once, those that are claimed by
-- id, and those of queues with more to look after move to leased_N, which is the shorter statement.
-- A claim that is alone in its transaction picks and takes them in one statement: one of our clients, which say so, or a
-- prepared statement in autocommit, which begins its transaction at most 10 microseconds before it runs. Any other claim
-- picks them first, with _pick. That takes a subtransaction, and leaves rows that PostgreSQL cannot mark as dead in its indexes.
-- Locks: ROW EXCLUSIVE on the segments it looks at; the rows it takes. Uses lane_N_order from the lane's floor on.
-- The planner settings keep the index scans that an empty table's statistics would talk the planner out of, and the plans
-- themselves: once a table is analyzed, a plan for the numbers at hand looks cheaper than the general one, and is then
-- made anew for every claim, which takes longer than the claim.
select penstock._unroll($unroll$
create or replace function penstock.claim(queue text, count integer default 1, lease_seconds integer default null, worker text default null)
returns setof penstock.lease language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  moves       boolean := claim.count < 16;
  started     timestamptz := clock_timestamp();
  slot        integer;
  older       text;    -- if not only the current segment is looked at: those that are left, the current one last
  alone       boolean;
  lane_queue  integer;
  lane_rank   smallint;
  lane_floor  bigint;
  until       timestamptz;
  number      bigint;  -- the claim's, if its messages move, and 16 more if the queue keeps history; else what they are held by
  tends       boolean; -- not the first claim of this session
  due         boolean;
  quiet       boolean; -- no lease expires before the next sweep: see _any_lease_ends
  empty       boolean; -- nothing was enqueued since the floor rose past everything
  places      tid[];   -- what _pick has locked, for a claim that is not alone in its transaction
  tokens_from bigint;
  n           integer;
  has_some    boolean;
begin
  -- The short way, for a queue with one priority and nothing special about it: one look at the queue and its registers,
  -- and one statement that takes the messages and hands them out.
  -- The first claim of a session leaves upkeep to others, because planning its statements takes longer than the claim. If
  -- upkeep is overdue by a second, one first claim in 16 does it. If it is overdue by ten seconds, every claim does.
  select q.id, q.priorities[1], pg_sequence_last_value(q.floors[1]), (pg_sequence_last_value('penstock.ring') % bigint '10')::integer,
    started + interval '1 second' * coalesce(claim.lease_seconds, q.lease_seconds)::float8,
    case when moves then (nextval('penstock.lease_number') * 4096 + (random() * float8 '4095')::integer) * 32 else bigint '0' end + case when q.keep_history > 0 then 16 else 0 end,
    current_setting('penstock.alone', true) = 'on',
    -- Due, or further ahead than it is ever set: then the clock was put back.
    abs(date_part('epoch', started) * float8 '1e6' + float8 '5e5' - pg_sequence_last_value(q.sweep_register)::float8)
      >= case when current_setting('penstock.tends', true) = 'on' then float8 '5e5' when random() < float8 '0.0625' then float8 '1.5e6' else float8 '1.05e7' end,
    case when current_setting('penstock.tends', true) = 'on' then true else set_config('penstock.tends', 'on', false) is null end,
    pg_sequence_last_value(q.sweep_register) & bigint '1' = bigint '1', pg_sequence_last_value(q.floors[1]) > pg_sequence_last_value('penstock.position')
  into lane_queue, lane_rank, lane_floor, slot, until, number, alone, due, tends, quiet, empty
  from penstock.queue q
  where q.name = claim.queue and q.plain_out and pg_sequence_last_value(q.lanes_register) = bigint '512' and count between 1 and 10000 and coalesce(claim.lease_seconds, 1) between 1 and 43200;
  if found then
    if due then
      perform penstock._in_passing(q) from penstock.queue q where q.id = lane_queue;
      lane_floor := (select pg_sequence_last_value(q.floors[1]) from penstock.queue q where q.id = lane_queue);
      quiet := false;
      empty := false;
    end if;
    -- A floor in the current segment's share of positions spares the look into older ones: beside a queue with a backlog
    -- in all eight, that would be most of the cost.
    if lane_floor <= pg_sequence_last_value('penstock.ring_until') - 32768 then
      older := substring(pg_sequence_last_value('penstock.ring')::text from '9(.+)');
      slot := left(older, 1);
    end if;
    if not moves then
      number := penstock._hold(until, number <> bigint '0');
      tokens_from := penstock._held_from(penstock._hold_mark(number));
    end if;
    loop
      exit when empty;
      if moves then
      --[ slot
      if alone is not true then
        places := case when statement_timestamp() > transaction_timestamp() + interval '10 microseconds'
                       then penstock._pick_{slot}(lane_queue, lane_rank, lane_floor, count, true, false) end;
      end if;
      return query
      -- What is handed out is what was deleted: a row that somebody changed since the statement began is locked in its new
      -- version, which the statement itself does not see and so cannot take.
      with gone as (
        delete from penstock.lane_{slot} where ctid = any (case when places is null then array(
          select r.ctid from penstock.lane_{slot} r
          where r.queue_id = lane_queue and r.priority = lane_rank and r.position >= lane_floor and r.hold = 0
            -- The queue may have got its first group or time to live since we looked at it.
            and (r.group_key, r.expires_at) is null
          order by r.position limit count for update skip locked) else places end)
        returning position, id, enqueued_at, first_claimed_at, queue_id, priority, attempt, max_attempts, body_slot, key, headers, payload, payload_bytes,
          last_error)
      insert into penstock.leased_{slot} as l (token, lease_until, position, watched, id, enqueued_at, first_claimed_at, claimed_at,
        queue_id, priority, attempt, max_attempts, body_slot, worker, key, headers, payload, payload_bytes, last_error)
      select number + {slot}, until, t.position, t.key is not null, t.id, t.enqueued_at, coalesce(t.first_claimed_at, started), started,
        t.queue_id, t.priority, t.attempt + 1, t.max_attempts, t.body_slot, claim.worker, t.key, t.headers, t.payload, t.payload_bytes, t.last_error
      from gone t order by t.position
      returning l.id, l.token, claim.queue, case when l.body_slot is null then l.payload else penstock._body_json(l.body_slot, l.id) end,
        case when l.body_slot is null then l.payload_bytes else penstock._body_bytes(l.body_slot, l.id) end, l.headers, l.key,
        l.priority::integer, null::text, l.attempt::integer, l.max_attempts::integer, l.enqueued_at, l.lease_until, null::timestamptz, l.last_error, null::text;
      --]
      else
      --[ slot
      if alone is not true then
        places := case when statement_timestamp() > transaction_timestamp() + interval '10 microseconds'
                       then penstock._pick_{slot}(lane_queue, lane_rank, lane_floor, count, true, false) end;
      end if;
      return query
      with held as (
        update penstock.lane_{slot} l set hold = number
        where l.ctid = any (case when places is null then array(
          select r.ctid from penstock.lane_{slot} r
          where r.queue_id = lane_queue and r.priority = lane_rank and r.position >= lane_floor and r.hold = 0
            -- As above; and a token has room for so many blocks. CASE keeps the planner from a scan of the table by ctid.
            and (r.group_key, r.expires_at) is null and case when r.ctid < '(16777216,0)' then true end
          order by r.position limit count for update skip locked) else places end)
        returning l.ctid as place, l.position, l.id, l.enqueued_at, l.attempt, l.max_attempts, l.body_slot, l.key, l.headers, l.payload, l.payload_bytes, l.last_error),
      granted as (
        insert into penstock.grant_{slot} (lease_until, hold, claimed_at, queue_id, priority, first_position, last_position, worker)
        select until, number, started, lane_queue, lane_rank, min(h.position), max(h.position), claim.worker from held h having count(*) > 0)
      select h.id, tokens_from + {slot} + penstock._held_at(h.place), claim.queue,
        case when h.body_slot is null then h.payload else penstock._body_json(h.body_slot, h.id) end,
        case when h.body_slot is null then h.payload_bytes else penstock._body_bytes(h.body_slot, h.id) end, h.headers, h.key,
        lane_rank::integer, null::text, h.attempt + 1, h.max_attempts::integer, h.enqueued_at, until, null::timestamptz, h.last_error, null::text
      from held h order by h.position;
      --]
      end if;
      get diagnostics n = row_count;
      if n > 0 and alone is not true and statement_timestamp() > transaction_timestamp() + interval '30 microseconds' then
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
    -- A claim that has some messages need not look each time for what is due or expired: that takes longer than the claim, and
    -- a queue on which messages come one by one has nothing but such claims. The next one after 5 ms looks, and so does one
    -- that has nothing.
    if has_some and not due then
      return;
    end if;
    -- Most polls of an empty queue end here: no lease expires before the next sweep, nothing is scheduled, and this transaction
    -- has enqueued nothing that only it can see.
    if quiet and coalesce(current_setting('penstock.announced', true), '') = '' and pg_relation_size('penstock.scheduled', 'main') = bigint '0' then
      return;
    end if;
    -- The queue may have got its first group, time to live or second priority since we looked at it.
    if not penstock._look_again(lane_queue, count, has_some, tends, quiet)
       and exists (select from penstock.queue q where q.id = lane_queue and q.plain_out and pg_sequence_last_value(q.lanes_register) = bigint '512') then
      return;
    end if;
  end if;
  -- The long way: upkeep in passing, priorities, limits, groups, dead letters; and another look where it came back short.
  return query select * from penstock._claim_special(claim.queue, count, claim.lease_seconds, claim.worker, coalesce(has_some, false));
end $$;
$unroll$);
