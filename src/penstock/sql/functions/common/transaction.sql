-- Facts about the current transaction. Locks: none. Indexes: none.
--
-- _in_block: is this statement one of several in a transaction, so that the commit may be far away? PostgreSQL does not
-- tell a function, but a block began with an earlier message of the client. A prepared statement in autocommit begins
-- its transaction 2 to 10 microseconds before it runs. A block that was started through a local socket is at least 24
-- microseconds old. A wrong guess only costs time, because every message is found either way.
create or replace function penstock._in_block() returns boolean language sql stable as $$
  select statement_timestamp() > transaction_timestamp() + {timing.block}
$$;

-- _alone: is this claim the only statement of its transaction? Our clients announce it: see `Command.alone`.
create or replace function penstock._alone() returns boolean language sql stable as $$
  select coalesce(current_setting('penstock.alone', true) = 'on', false)
$$;

-- _is_long: has this transaction been open for so long that timers may have passed the messages that it has scheduled
-- or leased?
create or replace function penstock._is_long() returns boolean language sql volatile as $$
  select transaction_timestamp() < clock_timestamp() - interval '500 milliseconds'
$$;
