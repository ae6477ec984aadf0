-- Settles messages as done. Locks: the leased rows. What is held in its lane is found by the place that its token says,
-- the rest by leased_N_token.
select penstock._for_each_segment($unroll$
-- Settles a message that was moved and leaves history, if there is no more to it. False if there is, or if its lease is lost.
create or replace function penstock._ack_logged_{slot}(id bigint, token bigint) returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  settled bigint;
begin
  with gone as (
    delete from penstock.leased_{slot} l
    where l.token = _ack_logged_{slot}.token and l.id = _ack_logged_{slot}.id and l.lease_until > clock_timestamp()
      and (l.key, l.group_key, l.body_slot) is null
    returning id, enqueued_at, first_claimed_at, claimed_at, queue_id, priority, attempt, max_attempts, worker, headers, payload, payload_bytes, last_error),
  logged as (
    insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at, last_claimed_at, finished_at, attempts,
      max_attempts, priority, payload_bytes_count, headers_bytes_count, worker, last_error, headers, payload, payload_bytes)
    select pg_sequence_last_value('penstock.history_current'), g.id, q.name, 'done', g.enqueued_at, g.first_claimed_at, g.claimed_at, clock_timestamp(),
      g.attempt, g.max_attempts, g.priority, coalesce(octet_length(g.payload_bytes), octet_length(g.payload::text)),
      coalesce(octet_length(g.headers::text), 0), g.worker, g.last_error, g.headers, g.payload, g.payload_bytes
    from gone g join penstock.queue q on q.id = g.queue_id where q.keep_history > 0)
  select g.id into settled from gone g;
  return settled is not null;
end $$;
$unroll$);

select penstock._unroll($unroll$
create or replace function penstock.ack(id bigint, token bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer := ack.token & 15;
begin
  -- Bit 16 of the token says that the queue keeps history: then, and for what has a key, a group or a body of its own,
  -- there is more to do than to delete.
  if ack.token & 16 = 0 and ack.token < 4611686018427387904 then
    --[ slot
    delete from penstock.leased_{slot} l where l.token = ack.token and l.id = ack.id and l.lease_until > clock_timestamp()
      and (l.key, l.group_key, l.body_slot) is null;
    --]
    if found then
      return;
    end if;
  elsif ack.token & 16 = 0 then
    --[ slot
    delete from penstock.lane_{slot} l where l.ctid = penstock._place(ack.token) and l.id = ack.id and penstock._hold_mark(l.hold) = penstock._held_mark(ack.token)
      and l.hold > penstock._hold_at(clock_timestamp()) and (l.key, l.body_slot) is null;
    --]
    if found then
      return;
    end if;
  elsif ack.token < 4611686018427387904 and slot <= 8 then
    --[ slot
    if penstock._ack_logged_{slot}(ack.id, ack.token) then
      return;
    end if;
    --]
  end if;
  perform penstock._ack_special(ack.id, ack.token);
end $$;

create or replace function penstock._ack_special(id bigint, token bigint) returns void language plpgsql as $$
declare
  l penstock.leased_0 := penstock._pull(id, token);
begin
  if l.id is null then
    perform penstock._fail_lost(id);
  end if;
  perform penstock._done(l);
end $$;

-- Settles many; returns the ids that were settled. One that is missing had lost its lease.
create or replace function penstock.ack_many(ids bigint[], tokens bigint[]) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  slot   integer := tokens[1] & 15;
  mark   integer;
  now_is bigint;
  places tid[];
  alike  boolean;
  n      integer := 0;
begin
  -- In one statement, if there is no more to do than to delete: what is held in one segment, or what moved by one claim.
  if tokens[1] & 16 = 0 and tokens[1] < 4611686018427387904 and tokens[1] = all (tokens) and cardinality(ids) = cardinality(tokens) and cardinality(ids) <= 10000 then
    --[ slot
    return query
    delete from penstock.leased_{slot} l where l.token = tokens[1] and l.id = any (ids) and l.lease_until > clock_timestamp()
      and (l.key, l.group_key, l.body_slot) is null returning l.id;
    --]
    get diagnostics n = row_count;
  elsif tokens[1] & 16 = 0 and tokens[1] >= 4611686018427387904 and cardinality(ids) = cardinality(tokens) and cardinality(ids) <= 10000 then
    select array_agg(penstock._place(t)), count(*) <= 64 and bool_and(t >> 45 = tokens[1] >> 45) into places, alike
    from unnest(tokens) t having bool_and(t & 31 = tokens[1] & 31);
    mark := penstock._held_mark(tokens[1]);
    now_is := penstock._hold_at(clock_timestamp());
    if places is not null then
      --[ slot
      return query
      delete from penstock.lane_{slot} l
      where l.ctid = any (places) and l.hold > now_is and (l.key, l.body_slot) is null
        -- To look through the list for each row is quick as long as it is short; else it is hashed.
        and case when alike then penstock._hold_mark(l.hold) = mark and l.id = any (ids)
                 else (l.id, penstock._held_token({slot}, penstock._hold_mark(l.hold), l.ctid)) in (select u.id, u.token from unnest(ids, tokens) u (id, token)) end
      returning l.id;
      --]
      get diagnostics n = row_count;
    end if;
  end if;
  if n = cardinality(ids) then
    return;
  end if;
  return query select * from penstock._ack_each(ids, tokens);
end $$;

-- Settles messages of several claims, or such as leave history or have a key, a group or a body of their own. Each pair is
-- looked up by itself: `offset 0`, and the clock, which no index can serve, leave no other plan. A join of many pairs with
-- what the planner took for few leases went over all pairs for each lease: 100 ms for 700 of them.
create or replace function penstock._ack_each(ids bigint[], tokens bigint[]) returns setof bigint
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  settled integer := 0;
  slot    integer;
  logged  boolean;
  n       integer;
  l       penstock.leased_0;
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  for slot, logged in select distinct t & 15, t & 16 <> 0 from unnest(tokens) t where t & 15 <= 8 loop
    if logged then
      --[ slot
      return query
      with moved as (
        delete from penstock.leased_{slot} l where l.ctid = any (array(
          select t.place
          from unnest(ids, tokens) u (id, token)
          cross join lateral (
            select r.ctid as place from penstock.leased_{slot} r where r.token = u.token and r.id = u.id
              and r.lease_until > clock_timestamp() and (r.key, r.group_key, r.body_slot) is null offset 0) t
          where u.token & 15 = {slot} and u.token < 4611686018427387904))
        returning l.*),
      let_go as (
        delete from penstock.lane_{slot} l using unnest(ids, tokens) u (id, token)
        where u.token >= 4611686018427387904 and u.token & 31 = {slot} + 16 and l.ctid = penstock._place(u.token) and l.id = u.id
          and penstock._hold_mark(l.hold) = penstock._held_mark(u.token) and l.hold > penstock._hold_at(started) and (l.key, l.body_slot) is null
        returning l.*),
      gone as (
        select id, enqueued_at, first_claimed_at, claimed_at, queue_id, priority, attempt, max_attempts, worker, headers, payload, payload_bytes, last_error
        from moved
        union all
        select l.id, l.enqueued_at, coalesce(l.first_claimed_at, g.claimed_at), g.claimed_at, l.queue_id, l.priority, least(l.attempt + 1, 32767)::smallint,
          l.max_attempts, g.worker, l.headers, l.payload, l.payload_bytes, l.last_error
        from let_go l left join lateral (select g.claimed_at, g.worker from penstock.grant_{slot} g
                                         where g.lease_until = penstock._hold_until(l.hold) and g.hold = l.hold limit 1) g on true),
      logged as (
        insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at, last_claimed_at, finished_at, attempts,
          max_attempts, priority, payload_bytes_count, headers_bytes_count, worker, last_error, headers, payload, payload_bytes)
        select pg_sequence_last_value('penstock.history_current'), g.id, q.name, 'done', g.enqueued_at, g.first_claimed_at, g.claimed_at, started,
          g.attempt, g.max_attempts, g.priority, coalesce(octet_length(g.payload_bytes), octet_length(g.payload::text)),
          coalesce(octet_length(g.headers::text), 0), g.worker, g.last_error, g.headers, g.payload, g.payload_bytes
        from gone g join penstock.queue q on q.id = g.queue_id where q.keep_history > 0)
      select g.id from gone g;
      --]
    else
      --[ slot
      return query
      with moved as (
        delete from penstock.leased_{slot} l where l.ctid = any (array(
          select t.place
          from unnest(ids, tokens) u (id, token)
          cross join lateral (
            select r.ctid as place from penstock.leased_{slot} r where r.token = u.token and r.id = u.id
              and r.lease_until > clock_timestamp() and (r.key, r.group_key, r.body_slot) is null offset 0) t
          where u.token & 15 = {slot} and u.token < 4611686018427387904))
        returning l.id),
      let_go as (
        delete from penstock.lane_{slot} l using unnest(ids, tokens) u (id, token)
        where u.token >= 4611686018427387904 and u.token & 31 = {slot} and l.ctid = penstock._place(u.token) and l.id = u.id
          and penstock._hold_mark(l.hold) = penstock._held_mark(u.token) and l.hold > penstock._hold_at(started) and (l.key, l.body_slot) is null
        returning l.id)
      select id from moved union all select id from let_go;
      --]
    end if;
    get diagnostics n = row_count;
    settled := settled + n;
  end loop;
  -- What is left has a key, a group or a body of its own, has moved to the attic, or has lost its lease.
  if settled < cardinality(ids) then
    for l in select p.* from (select * from unnest(ids, tokens) u (id, token) order by token, id) u cross join lateral penstock._pull(u.id, u.token) p loop
      continue when l.id is null;
      perform penstock._done(l);
      return next l.id;
    end loop;
  end if;
end $$;

-- Takes the leased row of a lease that is still held, wherever it is. Nothing, if the lease is lost.
create or replace function penstock._pull(id bigint, token bigint) returns penstock.leased_0 language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  l       penstock.leased_0;
  slot integer;
begin
  slot := _pull.token & 15;
  if slot > 8 then
    return null;
  end if;
  if _pull.token >= 4611686018427387904 then
    --[ slot
    delete from penstock.held_{slot} where place = penstock._place(_pull.token) and token = _pull.token and id = _pull.id and lease_until > started
    returning {leased} into l;
    --]
    if l.id is not null then
      return l;
    end if;
  end if;
  -- Or its lease was extended, or its segment cleared.
  --[ slot
  delete from penstock.leased_{slot} t where t.token = _pull.token and t.id = _pull.id and t.lease_until > started returning * into l;
  --]
  if l.id is null then
    delete from penstock.leased_0 t where t.token = _pull.token and t.id = _pull.id and t.lease_until > started returning * into l;
  end if;
  return l;
end $$;
$unroll$);

create or replace function penstock._done(l penstock.leased_0) returns void language plpgsql as $$
begin
  perform penstock._finish(penstock._envelope(l), 'done', null);
  if l.group_key is not null and l.dead_at is null then
    perform penstock._issue_ticket(l.queue_id, l.group_key, l.position);
  end if;
end $$;

create or replace function penstock._check_pairs(ids bigint[], other anyarray, name text) returns void language plpgsql as $$
begin
  if ids is null or cardinality(ids) > 10000 then
    perform penstock._fail_value('ids', coalesce(cardinality(ids) || ' ids', null), 'up to 10000 ids');
  elsif other is null or cardinality(other) <> cardinality(ids) then
    perform penstock._fail_value(name, coalesce(cardinality(other) || ' values', null), format('one for each of the %s ids', cardinality(ids)));
  end if;
end $$;
