-- The rows of the view mdb_queue.messages, except for leases that were claimed through the view.
--
-- A view cannot see the LIMIT of the statement that reads it, and a row lock does not pass through a view. Without
-- help, the contract's claim would sort the whole queue for ten messages, and all consumers would find the same ten. So
-- the text of a statement is compared with the claim of the contract (see _is_claim). For such a statement the view
-- shows the messages that the engine's own claim returns, which no other consumer gets. The UPDATE of the statement
-- then only records which of them it took, and for how long. Any other statement sees all messages, and changes them
-- one by one.
--
-- The state of a statement is in settings that are local to its transaction:
--   mdb_queue.act    the action: claim, update, delete or empty
--   mdb_queue.lane   the id of the queue that a claim has claimed from
--   mdb_queue.held   the tokens of the claim
--   mdb_queue.given  the number of claimed messages
--   mdb_queue.taken  the number of messages that the UPDATE took
--   mdb_queue.terms  the end of the lease and the holder
-- The settings mdb_queue.count, .lease and .worker of the session are a prediction of its next claim.
--
-- Settings are changed in assignments, not by PERFORM, which would run a query and take ten times as long.
--
-- Locks: as penstock.claim. Indexes: see _rows and _all_rows.

do $type$
begin
  if to_regtype('mdb_queue.message') is null then
    create type mdb_queue.message as (
      id            bigint,
      payload       jsonb,
      attempt_count integer,
      max_attempts  integer,
      visible_at    timestamptz,
      last_error    text,
      enqueued_at   timestamptz
    );
  end if;
end $type$;

-- Returns one of these settings, or null if it is not set.
create or replace function mdb_queue._setting(name text) returns text language sql stable as $$
  select nullif(current_setting('mdb_queue.' || name, true), '')
$$;

-- The contract has no bytes, so they appear as a JSON string in base64.
create or replace function mdb_queue._body(body_slot smallint, id bigint) returns jsonb language sql stable
security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(penstock._body_json(body_slot, id), to_jsonb(encode(penstock._body_bytes(body_slot, id), 'base64')))
$$;

-- Returns the name of a queue. Its cost is 1, because the plan of a claim includes one call for each lease, although a
-- claim never calls it. If the search for messages seemed more expensive than _nothing, the planner would first look
-- for the rows to update, and find none. Locks: none. Uses queue_pkey.
create or replace function mdb_queue._name(queue_id integer) returns text language plpgsql stable cost 1
security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (select q.name from penstock.queue q where q.id = queue_id);
end $$;

-- Returns nothing, at a cost of 90,000 for the planner. That is more than any search for messages, and less than the
-- 100,000 from which on plans are compiled.
create or replace function mdb_queue._nothing() returns setof boolean language plpgsql cost 36000000 rows 1
set search_path = pg_catalog, pg_temp as $$
begin
end $$;

-- The first call in a claim claims messages. The second call, for the rows to update, returns the claimed messages. The
-- planner settings are for the second call: see penstock.claim. Locks: as penstock._claim_by_id. Uses leased_N_token.
create or replace function mdb_queue._rows(queue_id integer, queue text) returns setof mdb_queue.message
language plpgsql strict rows 100 security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  -- A caller may set these settings to anything. It still sees only messages of this queue, which consumers may see.
  act        text := coalesce(current_setting('mdb_queue.act', true), '');
  held_token bigint;
  slot       integer;
  given      integer;
begin
  if not act ^@ 'claim' then
    return query select * from mdb_queue._all_rows(queue_id) where not mdb_queue._name(queue_id) ^@ 'penstock.';
  elsif queue ^@ 'penstock.' then
    return;
  elsif current_setting('mdb_queue.lane') = '' then
    -- The statement reads only the id of these rows, and they meet each of its conditions. So its LIMIT takes the rows
    -- with the lowest ids: see _settle_claim.
    return query
    select c.id, null::jsonb, 0, 1, '-infinity'::timestamptz, null::text, null::timestamptz
    from penstock._claim_by_id(queue, mdb_queue._wanted(), coalesce(mdb_queue._setting('lease'), '30')::integer,
      mdb_queue._setting('worker')) c
    where case when strpos(current_setting('mdb_queue.held'), c.token::text) > 0 then true
               else set_config('mdb_queue.held', concat_ws(' ', nullif(current_setting('mdb_queue.held'), ''), c.token),
                 true) is not null end;
    get diagnostics given = row_count;
    act := set_config('mdb_queue.given', given::text, true) || set_config('mdb_queue.lane', queue_id::text, true);
  else
    if mdb_queue._name(queue_id) ^@ 'penstock.' then
      return;
    end if;
    foreach held_token in array string_to_array(current_setting('mdb_queue.held'), ' ')::bigint[] loop
      slot := {token.segment(held_token)};
      --: branch on slot
      return query
      select l.id, case when l.body_slot is null then coalesce(l.payload, to_jsonb(encode(l.payload_bytes, 'base64')))
        else mdb_queue._body(l.body_slot, l.id) end, l.attempt - 1, l.max_attempts::integer,
        least(l.enqueued_at, now()), l.last_error, l.enqueued_at
      from penstock.leased_{slot} l where l.token = held_token and l.queue_id = _rows.queue_id order by l.id;
      --: end
    end loop;
  end if;
end $$;

-- Returns the number of messages to claim: the LIMIT in the text of the statement, or a prediction if it is a
-- parameter. Surplus messages go back before the statement ends.
create or replace function mdb_queue._wanted() returns integer language sql stable as $$
  select greatest(1, least({limit.messages}, coalesce(nullif(substr(current_setting('mdb_queue.act', true), 7), ''),
    mdb_queue._setting('count'), '100')::integer))
$$;

-- Returns all messages of a queue except those held by claims of this contract: waiting messages, and messages leased
-- by token, which are visible again when that lease ends. A statement that changes messages does not see rows that
-- another transaction is about to remove. Locks: ACCESS SHARE. Reads the whole queue.
create or replace function mdb_queue._all_rows(queue_id integer) returns setof mdb_queue.message language plpgsql
set enable_seqscan = on set enable_bitmapscan = on as $$
#variable_conflict use_column
declare
  busy xid[] := case when current_setting('mdb_queue.act', true) <> ''
                     then array(select k.transactionid from pg_locks k where k.locktype = 'transactionid'
                       and k.pid <> pg_backend_pid()) else '{}' end;
begin
  return query
  select w.id, case when w.body_slot is null then coalesce(w.payload, to_jsonb(encode(w.payload_bytes, 'base64')))
    else mdb_queue._body(w.body_slot, w.id) end, w.attempt::integer, w.max_attempts::integer, w.visible_at,
    w.last_error, w.enqueued_at
  from (
    select s.id, s.body_slot, s.payload, s.payload_bytes, s.attempt, s.max_attempts, s.due_at as visible_at,
      s.last_error, s.enqueued_at
    from penstock.scheduled s where s.queue_id = _all_rows.queue_id and s.group_key is null and s.xmax <> all (busy)
    union all
    select g.id, g.body_slot, g.payload, g.payload_bytes, g.attempt, g.max_attempts, g.visible_at, g.last_error,
      g.enqueued_at
    from penstock.grouped g where g.queue_id = _all_rows.queue_id
    --: for each segment
    union all
    select r.id, r.body_slot, r.payload, r.payload_bytes, r.attempt, r.max_attempts, r.enqueued_at, r.last_error,
      r.enqueued_at
    from penstock.lane_{slot} r where r.queue_id = _all_rows.queue_id and r.group_key is null and r.hold = 0
      and r.xmax <> all (busy)
    union all
    select h.id, h.body_slot, h.payload, h.payload_bytes, h.attempt, h.max_attempts, h.lease_until, h.last_error,
      h.enqueued_at
    from penstock.held_{slot} h where h.queue_id = _all_rows.queue_id
    union all
    select l.id, l.body_slot, l.payload, l.payload_bytes, l.attempt, l.max_attempts, l.lease_until, l.last_error,
      l.enqueued_at
    from penstock.leased_{slot} l where l.queue_id = _all_rows.queue_id and l.token >= 0 and l.dead_at is null
    --: end
  ) w;
end $$;
