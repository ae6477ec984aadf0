-- Settles many messages as done. Returns the ids that were settled; the lease of a missing one was lost. A message that
-- one claim has leased in place together with the others may have its id and its token at different indexes.
-- Locks: the rows of the messages. Uses leased_N_token, or the places in the tokens.
create or replace function penstock.ack_many(ids bigint[], tokens bigint[]) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  slot   integer := {token.segment(tokens[1])};
  mark   integer;
  now_is bigint;
  places tid[];
  alike  boolean;
  n      integer := 0;
begin
  -- One statement is enough for messages that only have to be deleted: leases in place in one segment, or moved by one
  -- claim.
  if {token.leaves_no_history(tokens[1])} and {token.is_moved(tokens[1])} and tokens[1] = all (tokens)
    and cardinality(ids) = cardinality(tokens) and cardinality(ids) <= {limit.messages} then
    --: branch on slot
    return query
    delete from penstock.leased_{slot} l where l.token = tokens[1] and l.id = any (ids)
      and l.lease_until > clock_timestamp()
      and (l.key, l.group_key, l.body_slot) is null and {is_no_member(l)} returning l.id;
    --: end
    get diagnostics n = row_count;
  elsif {token.leaves_no_history(tokens[1])} and {token.is_in_place(tokens[1])}
    and cardinality(ids) = cardinality(tokens) and cardinality(ids) <= {limit.messages} then
    select array_agg(penstock._place(t)), count(*) <= 64
      and bool_and({token.lease_end(t)} = {token.lease_end(tokens[1])}) into places, alike
    from unnest(tokens) t having bool_and({token.segment_and_history(t)} = {token.segment_and_history(tokens[1])});
    mark := penstock._held_mark(tokens[1]);
    now_is := penstock._hold_at(clock_timestamp());
    if places is not null then
      --: branch on slot
      return query
      delete from penstock.lane_{slot} l
      where l.ctid = any (places) and l.hold > now_is and (l.key, l.body_slot) is null and {is_no_member(l)}
        -- A short list is searched for each row; a long one is hashed.
        and case when alike then penstock._hold_mark(l.hold) = mark and l.id = any (ids)
                 else (l.id, penstock._held_token({slot}, penstock._hold_mark(l.hold), l.ctid))
                   in (select u.id, u.token from unnest(ids, tokens) u (id, token)) end
      returning l.id;
      --: end
      get diagnostics n = row_count;
    end if;
  end if;
  if n = cardinality(ids) then
    return;
  end if;
  if exists (select from penstock.queue q where q.has_members) then
    return query select * from penstock._ack_members(ids, tokens);
    get diagnostics n = row_count;
    if n = cardinality(ids) then
      return;
    end if;
  end if;
  return query select * from penstock._ack_each(ids, tokens);
end $$;

-- Settles messages of several claims, and messages that leave history or have a key, a group or a body. Each pair is
-- looked up by itself: OFFSET 0, and the clock, which no index can serve, leave no other plan. If the
-- planner underestimated the number of leases, a join compared all pairs with each lease: 100 ms for 700 pairs. Locks:
-- the rows of the messages, in the order of the tokens and ids where one call is made for each. Uses leased_N_token, or
-- the places in the tokens, and grant_N_until.
create or replace function penstock._ack_each(ids bigint[], tokens bigint[]) returns setof bigint
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
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
  for slot, logged in select distinct {token.segment(t)}, {token.leaves_history(t)} from unnest(tokens) t
    where {token.segment(t)} <= {ring.last_segment} loop
    if logged then
      --: branch on slot
      return query
      with moved as (
        delete from penstock.leased_{slot} l where l.ctid = any (array(
          select t.place
          from unnest(ids, tokens) u (id, token)
          cross join lateral (
            select r.ctid as place from penstock.leased_{slot} r where r.token = u.token and r.id = u.id
              and r.lease_until > clock_timestamp() and (r.key, r.group_key, r.body_slot) is null offset 0) t
          where {token.segment(u.token)} = {slot} and {token.is_moved(u.token)}))
        returning l.*),
      let_go as (
        delete from penstock.lane_{slot} l using unnest(ids, tokens) u (id, token)
        where {token.is_in_place(u.token)} and {token.segment_and_history(u.token)} = {slot} + {token.history_bit}
          and l.ctid = penstock._place(u.token) and l.id = u.id
          and penstock._hold_mark(l.hold) = penstock._held_mark(u.token) and l.hold > penstock._hold_at(started)
            and (l.key, l.body_slot) is null
        returning l.*),
      gone as (
        select id, enqueued_at, first_claimed_at, claimed_at, queue_id, priority, attempt, max_attempts, worker,
          key, group_key, headers, payload, payload_bytes, last_error
        from moved
        union all
        select l.id, l.enqueued_at, coalesce(l.first_claimed_at, g.claimed_at), g.claimed_at, l.queue_id, l.priority,
          least(l.attempt + 1, {limit.attempt})::smallint, l.max_attempts, g.worker, l.key, l.group_key, l.headers,
          l.payload, l.payload_bytes, l.last_error
        from let_go l left join lateral (select g.claimed_at, g.worker from penstock.grant_{slot} g
                                         where g.lease_until = penstock._hold_until(l.hold) and g.hold = l.hold
                                           limit 1) g on true),
      logged as (
        {history.insert(g, q.name, 'done', started, g.last_error)}
        from gone g join penstock.queue q on q.id = g.queue_id where q.keep_history > 0)
      select g.id from gone g;
      --: end
    else
      --: branch on slot
      return query
      with moved as (
        delete from penstock.leased_{slot} l where l.ctid = any (array(
          select t.place
          from unnest(ids, tokens) u (id, token)
          cross join lateral (
            select r.ctid as place from penstock.leased_{slot} r where r.token = u.token and r.id = u.id
              and r.lease_until > clock_timestamp() and (r.key, r.group_key, r.body_slot) is null offset 0) t
          where {token.segment(u.token)} = {slot} and {token.is_moved(u.token)}))
        returning l.id),
      let_go as (
        delete from penstock.lane_{slot} l using unnest(ids, tokens) u (id, token)
        where {token.is_in_place(u.token)} and {token.segment_and_history(u.token)} = {slot}
          and l.ctid = penstock._place(u.token) and l.id = u.id
          and penstock._hold_mark(l.hold) = penstock._held_mark(u.token) and l.hold > penstock._hold_at(started)
            and (l.key, l.body_slot) is null
        returning l.id)
      select id from moved union all select id from let_go;
      --: end
    end if;
    get diagnostics n = row_count;
    settled := settled + n;
  end loop;
  -- The rest has a key, a group or a body, has moved to the overflow segment, or has lost its lease.
  if settled < cardinality(ids) then
    for l in select p.* from (select * from unnest(ids, tokens) u (id, token) order by token, id) u cross
      join lateral penstock._pull(u.id, u.token) p loop
      continue when l.id is null;
      perform penstock._done(l);
      return next l.id;
    end loop;
  end if;
end $$;

-- Settles those of the messages that are members of batches, and counts them. Returns the ids that were settled.
-- Locks: the rows of the messages and of the members. Uses batch_member_pkey, otherwise as _ack_each.
create or replace function penstock._ack_members(ids bigint[], tokens bigint[]) returns setof bigint
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  member_ids    bigint[];
  member_tokens bigint[];
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  select array_agg(u.id), array_agg(u.token) into member_ids, member_tokens
  from unnest(ids, tokens) u (id, token) join penstock.batch_member m on m.id = u.id;
  if member_ids is null then
    return;
  end if;
  member_ids := array(select * from penstock._ack_each(member_ids, member_tokens));
  perform penstock._end_members(member_ids, 'done');
  return query select unnest(member_ids);
end $$;
