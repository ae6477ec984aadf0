-- The queue that most teams write first: one table, claimed with FOR UPDATE SKIP LOCKED, acked by
-- DELETE, with a table of queues to enqueue through and a table of dead messages that a claim
-- sweeps into first. It is here to be measured against, so it gets everything that makes it fast:
--
-- * functions in PL/pgSQL, whose plans are kept (as separate statements they are not faster);
-- * the index (queue_name, visible_at). Of those tried, with 8 clients and synchronous commit off,
--   in cycles of 1 / 10 / 100, freshly vacuumed and without the sweep, messages a second:
--     (queue_name, visible_at)       8.2k / 47.7k / 76.9k   taken
--     (queue_name, visible_at, id)   8.0k / 46.3k / 71.0k
--     (queue_name, id)               8.4k / 44.7k / 59.5k   and
--     the primary key alone          8.5k / 48.1k / 75.3k   keep claims in-page (HOT), but walk over
--                                                           everything leased or scheduled;
--   on a quiet machine, with the sweep, in turns of half a minute and more: the first 4.9k / 15.1k / 15.4k,
--   (queue_name, id), ordered by id, 6.0k / 8.5k / 28.9k: no index is the fastest at every batch size, and
--   `bench engine --plain-order id` takes that one;
-- * a small partial index for the sweep, which looks into the other one twice otherwise;
-- * plans held to those indexes by the session (see plain.session in statements.sql): left to the
--   statistics of a table that is mostly empty it falls to half or less;
-- * a claim by = any (array(...)), not by in (...), which leaves the planner no join to get wrong.
create schema penstock_bench;
comment on schema penstock_bench is 'scratch of penstock bench';

create table penstock_bench.queue (
    name         text    primary key,
    max_attempts integer not null default 5
);

create table penstock_bench.message (
    id            bigint generated always as identity primary key,
    queue_name    text        not null,
    payload       jsonb       not null,
    -- Later than now(), the time of the transaction, on purpose: rows of one call get an order.
    visible_at    timestamptz not null default clock_timestamp(),
    attempt_count integer     not null default 0,
    max_attempts  integer     not null,
    claimed_by    text,
    last_error    text,
    enqueued_at   timestamptz not null default now()
);
create index message_claim on penstock_bench.message (queue_name, visible_at /* order */);
create index message_sweep on penstock_bench.message (queue_name, visible_at)
    where attempt_count >= max_attempts;

create table penstock_bench.dead_message (
    id            bigint      primary key,
    queue_name    text        not null,
    payload       jsonb       not null,
    attempt_count integer     not null,
    last_error    text,
    enqueued_at   timestamptz not null,
    died_at       timestamptz not null default now()
);

-- A table of another application, for the transactions that pin the horizon.
create table penstock_bench.bystander (id integer);
insert into penstock_bench.bystander values (1);

create function penstock_bench.enqueue(queue text, payload jsonb)
returns bigint language plpgsql as $$
declare
    new_id bigint;
begin
    insert into penstock_bench.message (queue_name, payload, max_attempts)
    select q.name, enqueue.payload, q.max_attempts
      from penstock_bench.queue q
     where q.name = enqueue.queue
    returning id into new_id;
    return new_id;
end $$;

create function penstock_bench.enqueue_many(queue text, payloads jsonb[])
returns setof bigint language plpgsql as $$
begin
    return query
    insert into penstock_bench.message (queue_name, payload, max_attempts)
    select q.name, one.payload, q.max_attempts
      from penstock_bench.queue q, unnest(payloads) as one (payload)
     where q.name = enqueue_many.queue
    returning id;
end $$;

create function penstock_bench.claim(queue text, count integer, worker text)
returns table (id bigint, payload jsonb, attempt integer, enqueued_at timestamptz)
language plpgsql as $$
#variable_conflict use_column
begin
    return query
    with over_budget as (
        delete from penstock_bench.message m
         where m.queue_name = claim.queue
           and m.visible_at <= now()
           and m.attempt_count >= m.max_attempts
        returning *),
    swept as (
        insert into penstock_bench.dead_message
               (id, queue_name, payload, attempt_count, last_error, enqueued_at)
        select o.id, o.queue_name, o.payload, o.attempt_count, o.last_error, o.enqueued_at
          from over_budget o)
    update penstock_bench.message m
       set visible_at = clock_timestamp() + interval '30 seconds',
           attempt_count = m.attempt_count + 1,
           claimed_by = worker
     where m.id = any (array(
           select c.id
             from penstock_bench.message c
            where c.queue_name = claim.queue
              and c.visible_at <= now()
              and c.attempt_count < c.max_attempts
            order by c.visible_at /* order */
            limit claim.count
              for update skip locked))
    returning m.id, m.payload, m.attempt_count, m.enqueued_at;
end $$;

create function penstock_bench.ack(id bigint, worker text)
returns bigint language plpgsql as $$
declare
    settled bigint;
begin
    delete from penstock_bench.message m where m.id = ack.id and m.claimed_by = worker;
    get diagnostics settled = row_count;
    return settled;
end $$;

create function penstock_bench.ack_many(ids bigint[], worker text)
returns bigint language plpgsql as $$
declare
    settled bigint;
begin
    delete from penstock_bench.message m where m.id = any (ids) and m.claimed_by = worker;
    get diagnostics settled = row_count;
    return settled;
end $$;
