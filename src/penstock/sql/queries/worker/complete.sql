-- Acks several messages, keeps their results and enqueues their messages. Null if all were settled, otherwise the ids
-- that were.
select case when count(*) < cardinality(%(ids)s::bigint[]) then coalesce(array_agg(c.id), '{}') end
  from penstock.complete_many_v2(ids => %(ids)s::bigint[], tokens => %(tokens)s::bigint[],
    results => %(results)s::jsonb[], keep_seconds => %(keep_seconds)s::integer[],
    enqueues => %(enqueues)s::jsonb, queues => %(queues)s::text[]) c (id)
