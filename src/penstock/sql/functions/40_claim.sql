-- A number for a claim: its tokens are this, and 16 if the queue keeps history, and the segment. A sequence may give a number
-- once more after a crash, to a claim whose commit did not wait for the disk: the chance in it keeps whoever holds the
-- first one's leases from settling the second one's.
create or replace function penstock._lease_number() returns bigint language sql as $$
  select (nextval('penstock.lease_number') * 4096 + (random() * 4095)::integer) * 32
$$;

-- Claims up to count messages under a lease: highest priority first, then in order of position. Many at
-- once are held where they are, which writes a third of what it takes to move them; a few at once, those that are claimed by
-- id, and those of queues with more to look after move to leased_N, which is the shorter statement.
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
  alone       boolean := penstock._alone();
  places      tid[];
  started     timestamptz := clock_timestamp();
  ring        bigint := pg_sequence_last_value('penstock.ring');
  slot        integer := ring % 10;
  lane_queue  integer;
  lane_rank   smallint;
  lane_floor  bigint;
  until       timestamptz;
  number      bigint;  -- the claim's, if its messages move; else what they are held by
  tokens_from bigint;
  due         boolean;
  older       text;
  n           integer;
  has_some    boolean := false;
begin
  -- The short way, for a queue with one priority and nothing special about it: one look at the queue and its registers,
  -- and one statement that takes the messages and hands them out.
  select q.id, q.priorities[1], pg_sequence_last_value(q.floors[1]), started + make_interval(secs => coalesce(claim.lease_seconds, q.lease_seconds)),
    case when moves then penstock._lease_number() + case when q.keep_history > 0 then 16 else 0 end
         else penstock._hold(started + make_interval(secs => coalesce(claim.lease_seconds, q.lease_seconds)), q.keep_history > 0) end,
    date_part('epoch', started) * 1e6 >= pg_sequence_last_value(q.sweep_register)
  into lane_queue, lane_rank, lane_floor, until, number, due
  from penstock.queue q
  where q.name = claim.queue and q.plain_out and pg_sequence_last_value(q.lanes_register) = 512 and count between 1 and 10000 and coalesce(claim.lease_seconds, 1) between 1 and 43200;
  if found then
    if due then
      perform penstock._in_passing(q) from penstock.queue q where q.id = lane_queue;
      lane_floor := (select pg_sequence_last_value(q.floors[1]) from penstock.queue q where q.id = lane_queue);
    end if;
    if not moves then
      tokens_from := penstock._held_from(penstock._hold_mark(number));
    end if;
    -- A floor in the current segment's share of positions spares the look into older ones: beside a queue with a backlog
    -- in all eight, that would be most of the cost.
    older := case when ring / 10 % 10 <> 9 and lane_floor <= pg_sequence_last_value('penstock.ring_until') - 32768
                  then split_part((ring / 10)::text, '9', 2) else '' end;
    loop
      if older <> '' then
        slot := left(older, 1);
      end if;
      if not alone then
        places := penstock._pick(slot, lane_queue, lane_rank, lane_floor, count, true, false);
      end if;
      if moves then
      --[ slot
      return query
      -- What is handed out is what was deleted: a row that somebody changed since the statement began is locked in its new
      -- version, which the statement itself does not see and so cannot take.
      with gone as (
        delete from penstock.lane_{slot} where ctid = any (case when alone then array(
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
      return query
      with held as (
        update penstock.lane_{slot} l set hold = number
        where l.ctid = any (case when alone then array(
          select r.ctid from penstock.lane_{slot} r
          where r.queue_id = lane_queue and r.priority = lane_rank and r.position >= lane_floor and r.hold = 0
            -- As above; and a token has room for so many blocks.
            and (r.group_key, r.expires_at) is null and r.ctid < '(16777216,0)'
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
      if n > 0 and not alone and penstock._in_block() then
        perform penstock._announce('leased', 'leased', null);
      end if;
      count := count - n;
      if count = 0 then
        return;
      end if;
      has_some := has_some or n > 0;
      exit when slot = ring % 10;
      older := substr(older, 2);
      slot := ring % 10;
    end loop;
    -- Who has some need not look for what is due or ran out each time: that takes longer than the claim, and a queue on which
    -- messages come one by one has nothing but such claims. The next one after 5 ms looks, and so does one that has nothing.
    if has_some and not due then
      return;
    end if;
  end if;
  -- The long way: upkeep in passing, priorities, limits, groups, dead letters; and another look where it came back short.
  return query select * from penstock._claim_special(claim.queue, count, claim.lease_seconds, claim.worker, has_some);
end $$;
$unroll$);
