-- What a function can find out about its transaction. Locks: none. Indexes: none.
--
-- _in_block: is this statement one of several in a transaction, so that the commit may be far away? PostgreSQL does not
-- say, but the transaction began with an earlier message of the client. A prepared statement in autocommit begins its
-- transaction 2 to 10 microseconds before it runs. A block that was begun through a local socket is at least 24
-- microseconds old. A wrong guess costs time only: every message is found either way.
create or replace function penstock._in_block() returns boolean language sql stable as $$
  select statement_timestamp() > transaction_timestamp() + interval '30 microseconds'
$$;

-- Is this claim alone in its transaction? Our clients say so: see `Command.alone`.
create or replace function penstock._alone() returns boolean language sql stable as $$
  select coalesce(current_setting('penstock.alone', true) = 'on', false)
$$;

-- Has this transaction been open for so long that timers may have passed the messages it has scheduled or leased?
create or replace function penstock._is_long() returns boolean language sql volatile as $$
  select transaction_timestamp() < clock_timestamp() - interval '500 milliseconds'
$$;
