-- What penstock.browse_... show of a message: enough for a line in a list, without the payload.
create type penstock.sighting as (
  id           bigint,           -- null in the last row, which only says how far the look went
  queue        text,
  state        text,
  priority     integer,
  attempt      integer,
  max_attempts integer,
  enqueued_at  timestamptz,
  at           timestamptz,      -- visible, leased until, dead since or finished, as the state has it
  key          text,
  group_key    text,
  worker       text,
  last_error   text,             -- its beginning
  preview      text,             -- the beginning of the payload
  place        text,             -- where the next page begins, if it begins after this row
  looked       integer           -- how many messages were looked at, in the last row
);

-- Which messages penstock.browse shows; null lets all through.
create type penstock.sight_filter as (
  key             text,
  error           text,          -- a part of the last error
  worker          text,
  enqueued_before timestamptz,
  enqueued_after  timestamptz
);

-- It has a limit now: see functions/12_queue_drop.sql.
drop function if exists penstock.purge(text, boolean);
