-- name: find
-- PGMQ's tables have names in lower case. A view with this name belongs to the schema pgmq of Penstock.
select c.oid::regclass::text, c.relkind = 'v', current_database() || ' ' || c.oid
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'pgmq' and c.relname = lower('q_' || %(queue)s)

-- name: count
select count(*) from {table}

-- name: held
-- Messages that a reader holds: they were read, and are not visible again yet.
select count(*) from {table} where read_ct > 0 and vt > clock_timestamp()

-- name: rows
select q.msg_id::text as key, coalesce(q.message, 'null')::text, null::bytea,
       case when q.headers is null or jsonb_typeof(q.headers) = 'null' then null
            when jsonb_typeof(q.headers) = 'object' then q.headers::text
              else jsonb_build_object('headers', q.headers)::text end,
       null::integer, case when q.vt > clock_timestamp() then q.vt end
  from {table} q
 where q.read_ct = 0 or q.vt <= clock_timestamp()
 order by q.msg_id limit %(count)s for update skip locked

-- name: remove
delete from {table} where msg_id = any (%(keys)s::text[]::bigint[])
