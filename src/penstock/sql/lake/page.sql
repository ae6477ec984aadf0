-- One page of a log, in order. Everything in braces is ours or quoted.
select {columns}
from {relation}
where {span} and {filter} and (xid, {id}) > ('{after_xid}'::xid8, {after_id}) and (xid, {id}) <= ('{until_xid}'::xid8, {until_id})
order by xid, {id}
limit {limit}
