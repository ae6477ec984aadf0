-- The last of the positions in the cursor of cuts.sql. Our own code fills in the placeholders in braces.
select xid, {id}
from {relation} as log
where {span} and {filter} and (xid, {id}) > ('{after_xid}'::xid8, {after_id})
  and (xid, {id}) <= ('{until_xid}'::xid8, {until_id})
order by xid desc, {id} desc
limit 1
