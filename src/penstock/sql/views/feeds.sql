-- History and attempts for readers that follow them by snapshot. The views show all rows, independent of the clock, so
-- that the same two snapshots always show the same rows. Readers use history_log_xid and attempt_log_xid.
create or replace view penstock.history_feed as
select h.xid, h.id, h.queue, h.state, h.enqueued_at, h.first_claimed_at, h.last_claimed_at, h.finished_at,
       h.attempts::integer, h.max_attempts::integer, h.priority::integer, h.worker, h.key, h.group_key, h.last_error,
       h.payload_bytes_count, h.headers_bytes_count, h.headers, h.payload, h.payload_bytes
from penstock.history_log h;

-- The same for attempts. Uses attempt_log_xid.
create or replace view penstock.attempts_feed as
select a.xid, a.message_id, a.queue, a.attempt::integer, a.worker, a.started_at, a.ended_at, a.error, a.state
from penstock.attempt_log a;
