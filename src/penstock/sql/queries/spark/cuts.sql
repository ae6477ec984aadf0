-- A cursor over the positions of the rows of a log between two others, in order. Skipping a row takes 0.08 us, and
-- numbering it by a window function took 0.6. Our own code fills in the placeholders in braces. Uses history_log_xid or
-- attempt_log_xid.
declare cuts no scroll cursor for
select xid, {id}
from {relation} as log
where {span} and {filter} and (xid, {id}) > ('{after_xid}'::xid8, {after_id})
  and (xid, {id}) <= ('{until_xid}'::xid8, {until_id})
order by xid, {id}
