-- Acts of operators on all messages that match a filter, with their progress. Uses bulk_act_pkey and
-- bulk_act_created_at.
create or replace view penstock.bulk_acts as
select b.id, b.act, b.queues, b.state, b.key, b.error, b.worker, b.enqueued_before, b.enqueued_after, b.to_queue,
       b.priority, b.per_second, b.max_count, b.dry_run, b.status, b.stop_asked, b.looked, b.matched, b.changed,
       b.error_message, b.created_by, b.created_at, b.updated_at, b.finished_at, b.expected
from penstock.bulk_act b;
