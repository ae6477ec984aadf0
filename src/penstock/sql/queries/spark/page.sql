-- One page of a log, in order. Our own code fills in the placeholders in braces, and quotes other values. The order
-- names the table, because xid alone would be the column of the result. That is a number made from text, which no index
-- has, so each page would sort all rows after it.
select {columns}
from {relation} as log
where {span} and {filter} and (xid, {id}) > ('{after_xid}'::xid8, {after_id})
  and (xid, {id}) <= ('{until_xid}'::xid8, {until_id})
order by log.xid, log.{id}
limit {limit}
