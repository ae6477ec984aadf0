-- name: find
select c.oid::regclass::text, c.relkind in ('r', 'p'), current_database() || ' ' || c.oid
  from pg_class c where c.oid = to_regclass(%(table)s)

-- name: columns
select a.attname, format_type(a.atttypid, a.atttypmod)
  from pg_attribute a where a.attrelid = to_regclass(%(table)s) and a.attnum > 0 and not a.attisdropped

-- name: key
select a.attname
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
 where i.indrelid = to_regclass(%(table)s) and i.indisprimary

-- name: count
select count(*) from {table} t where {where}

-- name: rows
select t.{key}::text as key, {payload}, {payload_bytes}, {headers}, {priority}, {visible_at}
  from {table} t
 where ({where}) and (%(after)s::text is null or t.{key} > %(after)s::text::{key_type})
 order by t.{key} limit %(count)s {lock}

-- name: remove
delete from {table} t where t.{key} = any (%(keys)s::text[]::{key_type}[])
