-- Counts the rows of a range of a log by day and queue, and sums their checksums. Our own code fills in the
-- placeholders in braces. Uses history_log_xid or attempt_log_xid.
select ({time} at time zone 'UTC')::date::text, queue, count(*),
  sum(('x0' || left(md5({row}), 15))::bit(64)::bigint)::text
from {relation}
where {span} and xid > '{floor}'::xid8 and (xid, {id}) > ('{after_xid}'::xid8, {after_id})
  and (xid, {id}) <= ('{until_xid}'::xid8, {until_id})
group by 1, 2
