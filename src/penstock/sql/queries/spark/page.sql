-- One page of a log, in order. Everything in braces is ours or quoted. The order names the table: xid alone would be
-- the column of the result, which is text made a number, and no index has that: each page would sort all rows after it.
select {columns}
from {relation} as log
where {span} and {filter} and (xid, {id}) > ('{after_xid}'::xid8, {after_id})
  and (xid, {id}) <= ('{until_xid}'::xid8, {until_id})
order by log.xid, log.{id}
limit {limit}
