-- Finished messages within keep_history of their queue. Older rows are hidden before their slot is truncated. Uses
-- history_log_id and history_log_xid.
create or replace view penstock.history as
select h.id, h.queue, h.state, h.enqueued_at, h.first_claimed_at, h.last_claimed_at, h.finished_at, h.attempts::integer,
       h.max_attempts::integer, h.worker, h.last_error, h.payload_bytes_count, h.headers_bytes_count, h.headers,
       h.payload, h.payload_bytes, h.key, h.priority::integer, h.group_key, h.xid
from penstock.history_log h left join penstock.queue q on q.name = h.queue
where h.finished_at > clock_timestamp() - make_interval(days => coalesce(nullif(q.keep_history, 0), 3650));

-- Attempts after which the message was not finished. Uses attempt_log_message and attempt_log_xid.
create or replace view penstock.attempts as
select a.message_id, a.queue, a.attempt::integer, a.worker, a.started_at, a.ended_at, a.error, a.xid, a.state
from penstock.attempt_log a;
