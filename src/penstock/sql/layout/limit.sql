-- Limits that several functions check. docs/reference/sql.md has them for users.

-- The most messages, leases or ids that one call takes, and the most rows of a page.
--: define limit.messages as 10000
-- The longest lease: 12 hours.
--: define limit.lease_seconds as 43200
-- The longest time to live, and the longest time that a result is kept: 3,650 days.
--: define limit.ttl_seconds as 315360000
-- Attempts are counted in a smallint. The count stays at the largest one.
--: define limit.attempt as 32767
-- The longest key, group, name of a worker, and text of a search.
--: define limit.key_bytes as 1024

-- A transaction block whose messages are so many positions below the floor moves them when it commits, up to so many in
-- each segment: see background/reposition.sql.
--: define limit.late_positions as {late_from}
--: define limit.late_messages as 100

-- A payload of more bytes than inline_bytes is stored apart from its row: see functions/storage/body.sql. The plain
-- paths of enqueue take payloads of up to inline_text_bytes as text. A queue with plain_in accepts all of these.
--: define payload.inline_bytes as 1000
--: define payload.inline_text_bytes as 8192
