-- Acts on all messages that match a filter, the latest first; or one of them. No locks.
select id::text, act, queues, state, to_queue, priority, per_second::float8, max_count, dry_run, status, looked,
       matched, changed, error_message, created_by, created_at, finished_at, expected
  from penstock.bulk_acts
 where %(id)s::uuid is null or id = %(id)s::uuid
 order by created_at desc
 limit 100
