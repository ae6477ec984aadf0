-- Where to cut the next rows of a log: at the position of every step-th row, of the last one, and of the row at the
-- limit. k counts the rows up to there, all of them that share its position included: a transaction may have written two
-- attempts of one message. {relation}, {id}, {span} and {filter} are ours. Walks history_log_xid or attempt_log_xid.
select distinct xid::text::bigint, id, k
from (
  select xid, id, count(*) over (order by xid, id) as k, count(*) over () as total
  from (
    select xid, {id} as id
    from {relation}
    where {span} and {filter} and (xid, {id}) > (%(xid)s::text::xid8, %(id)s)
      and (xid, {id}) <= (%(until_xid)s::text::xid8, %(until_id)s)
    order by xid, {id}
    fetch first (%(limit)s + 1) rows with ties
  ) near
) numbered
where k %% %(step)s = 0 or k >= least(%(limit)s, total)
order by k
