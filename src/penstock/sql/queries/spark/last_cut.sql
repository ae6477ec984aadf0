-- The last of the positions that cuts.sql walks along. Everything in braces is ours.
select xid, {id}
from {relation} as log
where {span} and {filter} and (xid, {id}) > ('{after_xid}'::xid8, {after_id})
  and (xid, {id}) <= ('{until_xid}'::xid8, {until_id})
order by xid desc, {id} desc
limit 1
