-- SQLSTATEs. Those of errors that callers see begin with PS: docs/reference/sql.md lists them, and penstock.errors has
-- a class for each. PZ001 never leaves the function that raises it.

-- Raised to leave a block with an exception handler, so that PostgreSQL rolls back to the beginning of the block and
-- releases the row locks and table locks that were taken in it.
--: define sqlstate.undo as 'PZ001'

-- Errors of one message that a step of a bulk act skips.
--: define sqlstate.payload_too_large as 'PS005'
--: define sqlstate.unknown_message as 'PS010'
--: define sqlstate.cannot_be_replayed as 'PS012'
