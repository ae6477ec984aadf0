-- Acks several messages. Null if all were settled, otherwise the ids that were.
select case when count(*) < cardinality(%(ids)s::bigint[]) then coalesce(array_agg(a.id), '{}') end
  from penstock.ack_many(%(ids)s::bigint[], %(tokens)s::bigint[]) a (id)
