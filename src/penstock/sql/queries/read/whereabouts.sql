-- The unfinished ones of these messages, with their queues and states. Messages that no index finds are leased or
-- finished. One scan looks for all of them. No locks.
with quick as materialized (
  select m.id, m.queue, m.state
    from unnest(%(ids)s::bigint[]) as wanted (id)
    cross join lateral penstock.find_message(wanted.id, false) as m
),
missing as materialized (
  select array(select unnest(%(ids)s::bigint[]) except select id from quick) as ids
)
select id, queue, state from quick
union all
select m.id, m.queue, m.state
  from missing
  cross join lateral (select id, queue, state from penstock.messages where id = any (missing.ids)) as m
 where cardinality(missing.ids) > 0
