-- Messages by id, for the contracts whose callers know only the id. leased_N_id finds leases that were claimed
-- by id. Scheduled messages and messages of groups have an index on the id. A ready message has none. But the position
-- of a message that never came back is its id, and lane_N_order has the position; lane_N_back has the ids of those that
-- came back. Messages that were claimed with a token are not looked for.
--
-- _pull_by_id takes the leases claimed by id on these messages of a queue, expired or not, unless another claim has
-- taken them over. of_attempt: only if this attempt is the current one, so that it is still the lease that the caller
-- knows.
-- Locks: the rows. Uses leased_N_id.
create or replace function penstock._pull_by_id(queue_id integer, ids bigint[], of_attempt integer default null)
returns setof penstock.leased_0
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  missing integer := cardinality(ids);
  slot    integer;
  n       integer;
begin
  foreach slot in array penstock._slots_by_age() loop
    --: branch on slot
    return query delete from penstock.leased_{slot} l
    where l.token < 0 and l.id = any (ids) and l.queue_id = _pull_by_id.queue_id and l.dead_at is null
      and (of_attempt is null or l.attempt = of_attempt) returning *;
    --: end
    get diagnostics n = row_count;
    missing := missing - n;
    exit when missing <= 0;
  end loop;
end $$;

-- Gives such a lease another end and another holder. False if it no longer exists. Locks: the row. Uses
-- leased_N_id.
create or replace function penstock._amend_by_id(queue_id integer, id bigint, of_attempt integer, until timestamptz,
  worker text) returns boolean
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  slot integer;
begin
  foreach slot in array penstock._slots_by_age() loop
    --: branch on slot
    update penstock.leased_{slot} l set lease_until = until, worker = _amend_by_id.worker
    where l.token < 0 and l.id = _amend_by_id.id and l.queue_id = _amend_by_id.queue_id and l.dead_at is null
      and (of_attempt is null or l.attempt = of_attempt);
    --: end
    if found then
      perform penstock._forget_quiet(_amend_by_id.queue_id, until);
      return true;
    end if;
  end loop;
  return false;
end $$;

-- Gives all leases of a token another end and another holder. Locks: the rows. Uses leased_N_token.
create or replace function penstock._amend_claim(token bigint, until timestamptz, worker text) returns void
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer := {token.segment(_amend_claim.token)};
begin
  --: branch on slot
  update penstock.leased_{slot} l set lease_until = until, worker = _amend_claim.worker
    where l.token = _amend_claim.token;
  perform penstock._forget_quiet(l.queue_id, until)
    from (select l.queue_id from penstock.leased_{slot} l where l.token = _amend_claim.token limit 1) l;
  --: end
end $$;

-- The leases claimed by id on these messages of a queue, as _pull_by_id would take them; locked until commit. Uses
-- leased_N_id.
create or replace function penstock._held_by_id(queue_id integer, ids bigint[]) returns setof penstock.leased_0
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  slot integer;
begin
  foreach slot in array penstock._slots_by_age() loop
    --: branch on slot
    return query select * from penstock.leased_{slot} l
    where l.token < 0 and l.id = any (ids) and l.queue_id = _held_by_id.queue_id and l.dead_at is null for update;
    --: end
  end loop;
end $$;

-- The leases that a claim handed out under a token, in the order of their ids. Locks: ACCESS SHARE. Uses
-- leased_N_token.
create or replace function penstock._leases_of(token bigint) returns setof penstock.leased_0 language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer := {token.segment(_leases_of.token)};
begin
  --: branch on slot
  return query select * from penstock.leased_{slot} l where l.token = _leases_of.token order by l.id;
  --: end
end $$;

-- Puts messages that this transaction has claimed back to where they were, with or without counting the attempt. Their
-- positions in the lane are still free: no floor passes a message whose claim has not been committed. Locks: the rows.
-- Uses leased_N_token.
create or replace function penstock._unclaim(token bigint, ids bigint[], counted boolean default false) returns void
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer := {token.segment(_unclaim.token)};
  l    penstock.leased_0;
begin
  --: branch on slot
  for l in delete from penstock.leased_{slot} t where t.token = _unclaim.token and t.id = any (ids)
    and t.group_key is not null returning * loop
    l.attempt := l.attempt - case when counted then 0 else 1 end;
    perform penstock._place(null, penstock._envelope(l), 'ready', null, l.position);
  end loop;
  with gone as (delete from penstock.leased_{slot} t where t.token = _unclaim.token and t.id = any (ids) returning *)
  insert into penstock.ready_{slot} (position, id, enqueued_at, expires_at, first_claimed_at, claimed_at, queue_id,
    priority, attempt, max_attempts, body_slot, worker, key, headers, payload, payload_bytes, last_error)
  select g.position, g.id, g.enqueued_at, g.expires_at, case when counted or g.attempt > 1 then g.first_claimed_at end,
    case when counted or g.attempt > 1 then g.claimed_at end, g.queue_id, g.priority, g.attempt - case when counted
      then 0 else 1 end, g.max_attempts, g.body_slot, g.worker, g.key, g.headers,
    g.payload, g.payload_bytes, g.last_error
  from gone g;
  --: end
end $$;

-- Takes a waiting message of a queue. Returns nothing if it does not exist or another transaction has locked it.
-- Messages of groups are not taken, because that would break their order. Uses lane_N_order, scheduled_id and
-- lane_N_back. Locks: the row, with SKIP LOCKED.
create or replace function penstock._pull_waiting(queue_id integer, id bigint, of_attempt integer default null)
returns penstock.envelope language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  m penstock.envelope;
begin
  m := penstock._pull_fresh(_pull_waiting.queue_id, _pull_waiting.id, of_attempt);
  if m.id is not null then
    return m;
  end if;
  delete from penstock.scheduled where ctid = any (array(
    select s.ctid from penstock.scheduled s
    where s.id = _pull_waiting.id and s.queue_id = _pull_waiting.queue_id and s.group_key is null
      and (of_attempt is null or s.attempt = of_attempt) for update skip locked))
  returning {envelope} into m;
  if found then
    return m;
  end if;
  --: for each segment
  delete from penstock.lane_{slot} where ctid = any (array(
    select r.ctid from penstock.lane_{slot} r
    where r.hold = 0 and r.id = _pull_waiting.id and r.queue_id = _pull_waiting.queue_id and r.position <> r.id
      and r.group_key is null
      and (of_attempt is null or r.attempt = of_attempt) for update skip locked))
  returning {envelope} into m;
  if found then
    return m;
  end if;
  --: end
  return null;
end $$;

-- Takes a ready message that never came back: its position is its id. Uses lane_N_order. Locks: the row, with SKIP
-- LOCKED.
create or replace function penstock._pull_fresh(queue_id integer, id bigint, of_attempt integer)
returns penstock.envelope language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  ranks smallint[] := (select (penstock._with_lanes(q)).priorities from penstock.queue q
    where q.id = _pull_fresh.queue_id);
  m     penstock.envelope;
  slot  integer;
begin
  foreach slot in array penstock._slots_by_age() loop
    --: branch on slot
    delete from penstock.lane_{slot} where ctid = any (array(
      select r.ctid from penstock.lane_{slot} r
      where r.hold = 0 and r.queue_id = _pull_fresh.queue_id and r.priority = any (ranks)
        and r.position = _pull_fresh.id and r.id = _pull_fresh.id
        and r.group_key is null and (of_attempt is null or r.attempt = of_attempt) for update skip locked))
    returning {envelope} into m;
    --: end
    exit when m.id is not null;
  end loop;
  return m;
end $$;

-- Leases a message, claimed by id, and counts the attempt. Returns the token. Locks: ROW EXCLUSIVE on the current
-- segment until commit. Uses queue_pkey.
create or replace function penstock._lease_by_id(m penstock.envelope, until timestamptz, worker text) returns bigint
language plpgsql as $$
#variable_conflict use_column
declare
  started     timestamptz := clock_timestamp();
  slot        integer := penstock._lock_current();
  q           penstock.queue;
  lease_token bigint;
begin
  select * into q from penstock.queue t where t.id = m.queue_id;
  lease_token := penstock._lease_number() + {token.by_id}
    + case when q.keep_history > 0 or q.has_members then {token.history_bit} else 0 end + slot;
  --: branch on slot
  insert into penstock.leased_{slot} (token, lease_until, position, watched, id, enqueued_at, expires_at,
    first_claimed_at, claimed_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers,
    payload, payload_bytes, last_error)
  values (lease_token, until, nextval('penstock.position'), m.key is not null
    or q.max_in_flight is not null, m.id, m.enqueued_at, m.expires_at,
    coalesce(m.first_claimed_at, started), started, m.queue_id, m.priority, least(m.attempt + 1, {limit.attempt}),
    m.max_attempts,
      m.body_slot,
    _lease_by_id.worker, m.key, m.group_key, m.headers, m.payload, m.payload_bytes, m.last_error);
  --: end
  return lease_token;
end $$;
