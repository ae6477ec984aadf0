-- A stand-in for PGMQ with the same shape: a table for each queue, an identity for its key, an index on the time from which a
-- message is visible. A read takes the visible rows in order of id, skipping locked ones, and moves that time. A table for
-- each queue means that its name is put into every statement, which is therefore planned at every call.
--
-- It is here to be measured against, so it gets what makes it faster than the original: a read by = any (array(...)),
-- which leaves the planner no join to get wrong, one function in place of two for each call, and sessions that hold
-- it to the key's index (see standin.session in statements.sql). As in PGMQ the time is compared with
-- clock_timestamp(), which no index can serve: with now(), messages sent in a long transaction would not be seen.
create table penstock_bench.q_standin (
    msg_id       bigint primary key generated always as identity,
    read_ct      integer     not null default 0,
    enqueued_at  timestamptz not null default now(),
    last_read_at timestamptz,
    vt           timestamptz not null,
    message      jsonb,
    headers      jsonb
);
create index q_standin_vt on penstock_bench.q_standin (vt);

create function penstock_bench.standin_send(queue text, msg jsonb) returns setof bigint language plpgsql as $$
begin
    return query execute format('insert into penstock_bench.%I (vt, message) values ($2, $1) returning msg_id', 'q_' || queue)
    using msg, clock_timestamp();
end $$;

create function penstock_bench.standin_send_batch(queue text, msgs jsonb[], delay interval default '0')
returns setof bigint language plpgsql as $$
begin
    return query execute format(
        'insert into penstock_bench.%I (vt, message)
         select $2, one.message from unnest($1) as one (message)
         returning msg_id', 'q_' || queue)
    using msgs, clock_timestamp() + delay;
end $$;

create function penstock_bench.standin_read(queue text, vt_seconds integer, qty integer)
returns table (msg_id bigint, message jsonb, read_ct integer, enqueued_at timestamptz)
language plpgsql as $$
begin
    return query execute format(
        'update penstock_bench.%1$I m
            set last_read_at = clock_timestamp(), vt = clock_timestamp() + $1, read_ct = m.read_ct + 1
          where m.msg_id = any (array(
                select c.msg_id from penstock_bench.%1$I c
                 where c.vt <= clock_timestamp()
                 order by c.msg_id
                 limit $2
                   for update skip locked))
         returning m.msg_id, m.message, m.read_ct, m.enqueued_at', 'q_' || queue)
    using make_interval(secs => vt_seconds), qty;
end $$;

create function penstock_bench.standin_delete(queue text, id bigint) returns boolean language plpgsql as $$
declare
    gone bigint;
begin
    execute format('delete from penstock_bench.%I m where m.msg_id = $1 returning m.msg_id', 'q_' || queue) into gone using id;
    return gone is not null;
end $$;

create function penstock_bench.standin_delete(queue text, ids bigint[])
returns setof bigint language plpgsql as $$
begin
    return query execute format('delete from penstock_bench.%I m where m.msg_id = any ($1) returning m.msg_id', 'q_' || queue)
    using ids;
end $$;

-- The archive of a queue is a separate table. A message moves there in one statement.
create table penstock_bench.a_standin (
    msg_id       bigint primary key,
    read_ct      integer     not null default 0,
    enqueued_at  timestamptz not null default now(),
    last_read_at timestamptz,
    archived_at  timestamptz not null default now(),
    vt           timestamptz not null,
    message      jsonb,
    headers      jsonb
);
create index a_standin_archived_at on penstock_bench.a_standin (archived_at);

create function penstock_bench.standin_archive(queue text, id bigint) returns boolean language plpgsql as $$
declare
    moved bigint;
begin
    execute format(
        'with gone as (
             delete from penstock_bench.%1$I m where m.msg_id = $1
             returning m.msg_id, m.vt, m.read_ct, m.enqueued_at, m.last_read_at, m.message, m.headers)
         insert into penstock_bench.%2$I (msg_id, vt, read_ct, enqueued_at, last_read_at, message, headers)
         select g.msg_id, g.vt, g.read_ct, g.enqueued_at, g.last_read_at, g.message, g.headers from gone g
         returning msg_id', 'q_' || queue, 'a_' || queue) into moved using id;
    return moved is not null;
end $$;

-- Metrics are one scan of the queue's table, and the sequence that says how many messages there have ever been.
create function penstock_bench.standin_metrics(queue text,
    out queue_name text, out queue_length bigint, out newest_msg_age_sec integer, out oldest_msg_age_sec integer,
    out total_messages bigint, out scrape_time timestamptz, out queue_visible_length bigint)
language plpgsql as $$
begin
    queue_name := queue;
    execute format(
        'select m.length, m.newest, m.oldest, case when s.is_called then s.last_value else 0 end, now(), m.visible
           from (select count(*) as length, count(*) filter (where vt <= now()) as visible,
                        extract(epoch from now() - max(enqueued_at))::integer as newest,
                        extract(epoch from now() - min(enqueued_at))::integer as oldest
                   from penstock_bench.%I) m, penstock_bench.%I s', 'q_' || queue, 'q_' || queue || '_msg_id_seq')
       into queue_length, newest_msg_age_sec, oldest_msg_age_sec, total_messages, scrape_time, queue_visible_length;
end $$;
