-- What the view mdb_queue.messages shows of a queue, but for the leases that were claimed through it.
--
-- A view cannot see the LIMIT of the statement that reads it, nor can a lock reach through it: left to itself, the
-- contract's claim would sort the whole queue for ten messages, and all consumers would find the same ten. So a
-- statement that is the contract's claim, word for word, is recognized by its text (see _is_claim), and for that one
-- statement the view shows what the engine's own claim hands out: messages that nobody else will see. The statement's
-- UPDATE then only notes which of them it took, and for how long. Any other statement sees all there is, and works
-- on what it names, message by message.
--
-- What a statement needs to know of itself is kept in settings local to its transaction: mdb_queue.act (what is being
-- done: claim, update, delete or nothing), .held (what the claim handed out), .lane (from which queue), .chosen (what the
-- statement took of it). Those of the session are guesses at what it will ask for next: mdb_queue.count, .lease, .worker.

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

create or replace function mdb_queue._setting(name text) returns text language sql stable as $$
  select nullif(current_setting('mdb_queue.' || name, true), '')
$$;

-- The contract has no word for bytes: they show as a JSON string in base64.
create or replace function mdb_queue._body(body_slot smallint, id bigint) returns jsonb language sql stable
security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(penstock._body_json(body_slot, id), to_jsonb(encode(penstock._body_bytes(body_slot, id), 'base64')))
$$;

-- At a low price: a claim never calls it, but pays for it in its plan, once for each lease there is. Where its look for messages
-- seemed dearer than _nothing, the rows to update would be looked for first, and not found.
create or replace function mdb_queue._name(queue_id integer) returns text language plpgsql stable cost 1
security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (select q.name from penstock.queue q where q.id = queue_id);
end $$;

-- 90,000 to the planner: dearer than any look for messages, and under the 100,000 from which on plans would be compiled.
create or replace function mdb_queue._nothing() returns setof boolean language sql cost 36000000 rows 1 set search_path = pg_catalog, pg_temp as $$
  select true where false
$$;

create or replace function mdb_queue._rows(queue_id integer, queue text) returns setof mdb_queue.message
language plpgsql strict rows 100 security definer set search_path = pg_catalog, pg_temp as $$
begin
  if current_setting('mdb_queue.act', true) ^@ 'claim' then
    return query select * from mdb_queue._claimed_rows(queue_id, queue);
  else
    return query select * from mdb_queue._all_rows(queue_id);
  end if;
end $$;

-- The first look of a claim at a queue claims; the second, for the rows to update, shows what was claimed.
create or replace function mdb_queue._claimed_rows(queue_id integer, queue text) returns setof mdb_queue.message language plpgsql as $$
declare
  held   jsonb := coalesce(mdb_queue._setting('held'), '{}');
  tokens bigint[];
  n      integer := 0;
  l      record;
  m      mdb_queue.message;
begin
  if held ? queue_id::text then
    return query
    select t.id, case when t.body_slot is null then coalesce(t.payload, to_jsonb(encode(t.payload_bytes, 'base64'))) else mdb_queue._body(t.body_slot, t.id) end, t.attempt - 1, t.max_attempts::integer,
      least(t.enqueued_at, now()), t.last_error, t.enqueued_at
    from jsonb_array_elements_text(held #> array[queue_id::text, 'tokens']) h (token) cross join penstock._leases_of(h.token::bigint) t;
    return;
  end if;
  for l in select * from penstock._claim_by_id(queue, mdb_queue._wanted(), coalesce(mdb_queue._setting('lease'), '30')::integer, mdb_queue._setting('worker')) loop
    n := n + 1;
    if n = 1 or l.token <> tokens[cardinality(tokens)] then
      tokens := tokens || l.token;
    end if;
    m := (l.id, coalesce(l.payload, to_jsonb(encode(l.payload_bytes, 'base64'))), l.attempt - 1, l.max_attempts, least(l.enqueued_at, now()), l.last_error, l.enqueued_at);
    return next m;
  end loop;
  if n > 0 then
    perform set_config('mdb_queue.held', (held || jsonb_build_object(queue_id, jsonb_build_object('tokens', tokens, 'count', n)))::text, true);
  end if;
  perform set_config('mdb_queue.lane', queue_id::text, true);
end $$;

-- How many messages a claim asks the engine for: as its text says, or, if that is a parameter, a guess. What proves
-- too many goes back to its place before the statement ends.
create or replace function mdb_queue._wanted() returns integer language sql stable as $$
  select greatest(1, least(10000, coalesce(nullif(substr(current_setting('mdb_queue.act', true), 7), ''), mdb_queue._setting('count'), '100')::integer))
$$;

select penstock._unroll($unroll$
-- Everything in a queue that is not held by the contract's own claims: what waits, and what is leased by token, which is
-- visible again when that lease ends. Who means to change something is not shown what others are about to take away.
create or replace function mdb_queue._all_rows(queue_id integer) returns setof mdb_queue.message language plpgsql as $$
#variable_conflict use_column
declare
  busy xid[] := case when current_setting('mdb_queue.act', true) <> ''
                     then array(select k.transactionid from pg_locks k where k.locktype = 'transactionid' and k.pid <> pg_backend_pid()) else '{}' end;
begin
  return query
  select w.id, case when w.body_slot is null then coalesce(w.payload, to_jsonb(encode(w.payload_bytes, 'base64'))) else mdb_queue._body(w.body_slot, w.id) end,
    w.attempt::integer, w.max_attempts::integer, w.visible_at, w.last_error, w.enqueued_at
  from (
    select s.id, s.body_slot, s.payload, s.payload_bytes, s.attempt, s.max_attempts, s.due_at as visible_at, s.last_error, s.enqueued_at
    from penstock.scheduled s where s.queue_id = _all_rows.queue_id and s.group_key is null and s.xmax <> all (busy)
    union all
    select g.id, g.body_slot, g.payload, g.payload_bytes, g.attempt, g.max_attempts, g.visible_at, g.last_error, g.enqueued_at
    from penstock.grouped g where g.queue_id = _all_rows.queue_id
    --[
    union all
    select r.id, r.body_slot, r.payload, r.payload_bytes, r.attempt, r.max_attempts, r.enqueued_at, r.last_error, r.enqueued_at
    from penstock.ready_{slot} r where r.queue_id = _all_rows.queue_id and r.group_key is null and r.xmax <> all (busy)
    union all
    select l.id, l.body_slot, l.payload, l.payload_bytes, l.attempt, l.max_attempts, l.lease_until, l.last_error, l.enqueued_at
    from penstock.leased_{slot} l where l.queue_id = _all_rows.queue_id and l.token >= 0 and l.dead_at is null
    --]
  ) w;
end $$;
$unroll$);
