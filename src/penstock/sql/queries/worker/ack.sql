-- Acks many; the ids that were settled, if they were not all.
select case when count(*) < cardinality(%(ids)s::bigint[]) then coalesce(array_agg(a.id), '{}') end
  from penstock.ack_many(%(ids)s::bigint[], %(tokens)s::bigint[]) a (id)
