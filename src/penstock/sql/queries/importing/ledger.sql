-- name: leftover
select key from penstock.import_row where source = %(source)s order by key limit %(count)s

-- name: note
-- Returns the new rows. The others were imported before.
insert into penstock.import_row (source, key)
select %(source)s, k from unnest(%(keys)s::text[]) k on conflict do nothing
returning key

-- name: clear
delete from penstock.import_row where source = %(source)s and key = any (%(keys)s::text[])

-- name: enqueue
-- Payloads are passed as text, so that no driver converts their numbers.
select count(*) from penstock.enqueue_many(%(queue)s,
  payloads => %(payloads)s::text[]::jsonb[], payloads_bytes => %(payloads_bytes)s::bytea[],
  headers => %(headers)s::text[]::jsonb[],
  priorities => %(priorities)s::integer[], visible_ats => %(visible_ats)s::timestamptz[])

-- name: create
select penstock.create_queue(%(queue)s, exist_ok => true)
