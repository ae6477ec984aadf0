-- Every statement of the benchmark but for plain_table.sql. A line "-- name: x" begins statement x.
--
-- The timed calls are the same on both sides, but for the proof that ack takes: Penstock's token,
-- the plain table's worker name.

-- name: penstock.session
-- Its functions bring the settings they need; each claim is a separate transaction, as in our clients.
set penstock.alone = on

-- name: penstock.enqueue
select penstock.enqueue($1::text, $2::jsonb)

-- name: penstock.enqueue_many
select * from penstock.enqueue_many($1::text, $2::jsonb[])

-- name: penstock.claim
select id, token, payload, attempt, enqueued_at
  from penstock.claim($1::text, $2::integer, worker => $3::text)

-- name: penstock.ack
select penstock.ack($1::bigint, $2::bigint)

-- name: penstock.ack_many
select * from penstock.ack_many($1::bigint[], $2::bigint[])

-- name: plain.session
set jit = off; set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off

-- name: plain.enqueue
select penstock_bench.enqueue($1::text, $2::jsonb)

-- name: plain.enqueue_many
select * from penstock_bench.enqueue_many($1::text, $2::jsonb[])

-- name: plain.claim
select id, payload, attempt, enqueued_at
  from penstock_bench.claim($1::text, $2::integer, $3::text)

-- name: plain.ack
select penstock_bench.ack($1::bigint, $2::text)

-- name: plain.ack_many
select penstock_bench.ack_many($1::bigint[], $2::text)

-- PGMQ's functions on Penstock, and their stand-in. An ack takes the name of the queue in addition to the ids.

-- name: pgmq.session
-- Nothing: users of PGMQ set nothing.

-- name: pgmq.enqueue
select * from pgmq.send($1::text, $2::jsonb)

-- name: pgmq.enqueue_many
select * from pgmq.send_batch($1::text, $2::jsonb[])

-- name: pgmq.claim
select msg_id, message, read_ct, enqueued_at from pgmq.read($1::text, 30, $2::integer) where $3::text is not null

-- name: pgmq.ack
select pgmq.delete($2::text, $1::bigint)::integer::bigint

-- name: pgmq.ack_many
select count(*) from pgmq.delete($2::text, $1::bigint[])

-- name: standin.session
set jit = off; set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off

-- name: standin.enqueue
select * from penstock_bench.standin_send('standin', $2::jsonb) where $1::text is not null

-- name: standin.enqueue_many
select * from penstock_bench.standin_send_batch('standin', $2::jsonb[]) where $1::text is not null

-- name: standin.claim
select msg_id, message, read_ct, enqueued_at from penstock_bench.standin_read('standin', 30, $2::integer)
 where $1::text is not null and $3::text is not null

-- name: standin.ack
select penstock_bench.standin_delete('standin', $1::bigint)::integer::bigint where $2::text is not null

-- name: standin.ack_many
select count(*) from penstock_bench.standin_delete('standin', $1::bigint[]) where $2::text is not null

-- name: pgmq.archive
select pgmq.archive($2::text, $1::bigint)::integer::bigint

-- name: standin.archive
select penstock_bench.standin_archive('standin', $1::bigint)::integer::bigint where $2::text is not null

-- name: mdb.session
-- Nothing.

-- name: mdb.enqueue
select penstock.enqueue($1::text, $2::jsonb)

-- name: mdb.enqueue_many
select * from penstock.enqueue_many($1::text, $2::jsonb[])

-- name: mdb.claim
update mdb_queue.messages m
set visible_at = now() + (30 * interval '1 second'),
attempt_count = m.attempt_count + 1,
claimed_by = $3::text
where m.id in (
select id from mdb_queue.messages
where queue_name = $1::text
and visible_at <= now()
and attempt_count < max_attempts
order by id
for update skip locked
limit 10
)
returning m.id, m.payload, m.attempt_count, m.enqueued_at, $2::integer

-- name: mdb.ack
delete from mdb_queue.messages where id = $1::bigint and claimed_by = $2::text returning 1::bigint

-- name: mdb.ack_many
with gone as (delete from mdb_queue.messages where id = any ($1::bigint[]) and claimed_by = $2::text returning id)
select count(*) from gone

-- What surrounds them, on the benchmark's own connection.

-- name: pgmq.create
select pgmq.create(%(queue)s)

-- name: pgmq.load_scheduled
select count(*) from pgmq.send_batch(%(queue)s, array_fill(%(payload)s::jsonb, array[%(count)s::integer]), 21600)

-- name: standin.load_scheduled
select count(*) from penstock_bench.standin_send_batch('standin', array_fill(%(payload)s::jsonb, array[%(count)s::integer]), interval '6 hours')

-- name: pgmq.load_ready
select count(*) from pgmq.send_batch(%(queue)s, array_fill(%(payload)s::jsonb, array[%(count)s::integer]))

-- name: standin.load_ready
select count(*) from penstock_bench.standin_send_batch('standin', array_fill(%(payload)s::jsonb, array[%(count)s::integer]))
 where %(queue)s::text is not null

-- name: pgmq.purge
select pgmq.purge_queue(%(queue)s)

-- name: standin.purge
truncate penstock_bench.q_standin

-- name: pgmq.tidy
select penstock.maintain(true)

-- name: standin.tidy
vacuum (analyze) penstock_bench.q_standin

-- name: pgmq.drop
drop schema pgmq cascade

-- name: pgmq.forget
delete from penstock.migration_contract where name = 'pgmq'

-- name: penstock.purge
select penstock.purge(%(queue)s, include_leased => true)

-- name: penstock.tidy
select penstock.maintain(true)

-- name: plain.purge
truncate penstock_bench.message

-- name: plain.tidy
vacuum (analyze) penstock_bench.message

-- name: control
-- Work that has nothing to do with queues: how fast the machine is at the moment.
select count(*) from generate_series(1, 1000)

-- name: penstock.load_ready
select count(*) from penstock.enqueue_many(%(queue)s, array_fill(%(payload)s::jsonb, array[%(count)s::integer]))

-- name: plain.load_ready
insert into penstock_bench.message (queue_name, payload, max_attempts)
select %(queue)s, %(payload)s::jsonb, 5 from generate_series(1, %(count)s::integer)

-- name: penstock.load_scheduled
select count(*)
  from penstock.enqueue_many(%(queue)s, array_fill(%(payload)s::jsonb, array[%(count)s::integer]),
         delays => array_fill(interval '6 hours', array[%(count)s::integer]))

-- name: plain.load_scheduled
insert into penstock_bench.message (queue_name, payload, max_attempts, visible_at)
select %(queue)s, %(payload)s::jsonb, 5, clock_timestamp() + interval '6 hours'
  from generate_series(1, %(count)s::integer)

-- name: penstock.load_leased
select count(*) from penstock.claim(%(queue)s, %(count)s::integer, lease_seconds => 21600)

-- name: plain.load_leased
update penstock_bench.message m
   set visible_at = clock_timestamp() + interval '6 hours', attempt_count = 1, claimed_by = 'bench'
 where m.id in (select c.id
                  from penstock_bench.message c
                 where c.queue_name = %(queue)s and c.visible_at <= now()
                 order by c.visible_at
                 limit %(count)s::integer)

-- name: disk_bytes
-- TOAST counts as heap; sequences, a page each, count too.
select coalesce(sum(case when c.relkind in ('r', 'S') then pg_table_size(c.oid) end), 0)::bigint as heap,
       coalesce(sum(case when c.relkind = 'r' then pg_indexes_size(c.oid) end), 0)::bigint as index
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = %(schema)s

-- name: wal_position
select (pg_current_wal_insert_lsn() - '0/0')::bigint

-- name: flush_statistics
-- Or what a session counted would reach the server's statistics up to a second later.
select pg_stat_force_next_flush()

-- name: wal_images
select wal_fpi from pg_stat_wal

-- name: server
select version() as version, current_database() as database, current_user as user

-- name: settings
select name, current_setting(name) as value
  from pg_settings
 where name = any (%(names)s)
 order by name

-- name: horizon_age
-- How many transactions ago the oldest one that others still may need began.
select coalesce(max(greatest(age(backend_xmin), age(backend_xid))), 0)
  from pg_stat_activity
 where pid <> pg_backend_pid() and datname = current_database()
   and backend_type = 'client backend'

-- name: transactions
-- How many this database has ended so far.
select xact_commit + xact_rollback from pg_stat_database where datname = current_database()

-- name: pin.reader
begin isolation level repeatable read; select * from penstock_bench.bystander

-- name: pin.xid
begin; insert into penstock_bench.bystander values (2)

-- name: lock
select pg_try_advisory_lock(hashtextextended('penstock bench', 0))

-- name: schema_comment
select n.oid is not null, obj_description(n.oid, 'pg_namespace')
  from (select to_regnamespace('penstock_bench')) as n (oid)

-- name: leftover_queues
select name from penstock.queues where starts_with(name, 'bench-')

-- name: foreign_queues
select count(*) from penstock.queues

-- name: create_queue
select penstock.create_queue(%(name)s, %(settings)s)

-- name: plain.create_queue
insert into penstock_bench.queue (name) values (%(name)s)

-- name: drop_queue
select penstock.drop_queue(%(name)s, force => true)

-- name: forget_history
delete from penstock.history_log where queue = any (%(queues)s)

-- name: forget_attempts
delete from penstock.attempt_log where queue = any (%(queues)s)

-- name: drop_plain
drop schema if exists penstock_bench cascade

-- name: drop_penstock
drop schema if exists penstock, mdb_queue cascade

-- What bench commit adds.

-- name: commit.enqueue_group
select penstock.enqueue($1::text, $2::jsonb, group_key => $3::text)

-- name: commit.enqueue_mixed
select penstock.enqueue($1::text, $2::jsonb, key => $3::text, priority => $4::integer, group_key => $5::text)

-- name: pgmq.metrics
select * from pgmq.metrics(%(queue)s)

-- name: standin.metrics
select * from penstock_bench.standin_metrics('standin') where %(queue)s::text is not null

-- name: pgmq.count
select count(*) from pgmq."q_bench-commit-pgmq" where vt <= now() and %(queue)s::text is not null

-- name: standin.count
select count(*) from penstock_bench.q_standin where vt <= now() and %(queue)s::text is not null

-- name: penstock.stats
select * from penstock.stats(%(queue)s)

-- name: plain.stats
-- One scan, as a dashboard on such a table would have it.
select count(*) filter (where visible_at <= now() and attempt_count < max_attempts) as ready,
       count(*) filter (where visible_at > now() and attempt_count = 0) as scheduled,
       count(*) filter (where visible_at > now() and attempt_count > 0) as leased,
       min(enqueued_at) as oldest
  from penstock_bench.message
 where queue_name = %(queue)s

-- name: commit.rescans
select penstock.rescans_that_found()

-- name: setting
select current_setting(%(setting)s)

-- name: commit.delay_commits
-- Each commit of the session waits this many microseconds before it flushes, whether or not others are active.
set commit_siblings = 0; set commit_delay = {microseconds}

-- name: lake.forget
truncate penstock.history_log, penstock.attempt_log

-- name: lake.finished
-- Messages that a worker has finished, ten thousand to a transaction.
insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at, last_claimed_at, finished_at, attempts, max_attempts,
  priority, payload_bytes_count, headers_bytes_count, worker, payload)
select pg_sequence_last_value('penstock.history_current'), nextval('penstock.position'), %(queue)s, 'done', clock_timestamp(), clock_timestamp(),
  clock_timestamp(), clock_timestamp(), 1, 5, 0, octet_length(p::text), 0, 'worker-' || n %% 10, p
from (select n, jsonb_build_object('order', n, 'amount', n %% 1000 / 10.0, 'note', repeat('x', 150)) as p from generate_series(%(first)s::bigint, %(last)s) n) m

-- name: lake.enqueue
select count(*) from penstock.enqueue_many(%(queue)s, array(
  select jsonb_build_object('order', n, 'amount', n %% 1000 / 10.0, 'note', repeat('x', 150)) from generate_series(%(first)s::bigint, %(last)s) n))

-- name: lake.analyze
vacuum analyze penstock.history_log

-- name: lake.first_id
select min(id) from penstock.history_log

-- name: lake.last_id
select max(id) from penstock.history_log

-- name: lake.waiting
select count(*) from penstock.messages where queue = %(queue)s

-- name: lake.plain
create table if not exists penstock_bench.sink (id bigint generated always as identity primary key, payload jsonb not null)

-- name: lake.empty_plain
truncate penstock_bench.sink

-- name: lake.plain_count
select count(*) from penstock_bench.sink

-- name: lake.oldest_transaction
select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity
where datname = current_database() and application_name = %(application)s

-- name: limits.set
select penstock.set_queue(%(queue)s, jsonb_build_object('throughput_limit', %(limit)s::integer))

-- name: limits.now
select clock_timestamp()

-- name: limits.claimed
-- Messages claimed after the first claim that counts, and the seconds from that one to the last.
select count(*) filter (where last_claimed_at > first_at),
       coalesce(extract(epoch from max(last_claimed_at) - min(first_at)), 0)::float8
  from (select last_claimed_at, min(last_claimed_at) over () as first_at from penstock.history
         where queue = %(queue)s and state = 'done'
           and last_claimed_at > %(after)s::timestamptz + make_interval(secs => %(burst)s::float8)) claimed
