-- History and attempts: append-only, in sixteen time slots. A slot is truncated once all it holds is too old. xid lets
-- a reader follow the rows without gaps: it reads what a later snapshot sees and an earlier one did not.
create table penstock.history_log (
  slot                smallint not null,
  xid                 xid8 not null default pg_current_xact_id(),
  id                  bigint not null,
  queue               text not null,
  state               text not null
                      constraint state_is_final check (state in ('done', 'dead', 'expired', 'cancelled', 'superseded')),
  enqueued_at         timestamptz not null,
  first_claimed_at    timestamptz,
  last_claimed_at     timestamptz,
  finished_at         timestamptz not null,
  attempts            smallint not null,
  max_attempts        smallint not null,
  priority            smallint not null,
  payload_bytes_count integer not null,
  headers_bytes_count integer not null,
  worker              text,
  key                 text,
  group_key           text,
  last_error          text,
  headers             jsonb,
  payload             jsonb,
  payload_bytes       bytea
) partition by list (slot);
alter table penstock.history_log replica identity full;
create index history_log_xid on penstock.history_log (xid, id);
create index history_log_id on penstock.history_log (id);

create table penstock.attempt_log (
  slot       smallint not null,
  xid        xid8 not null default pg_current_xact_id(),
  message_id bigint not null,
  queue      text not null,
  attempt    smallint not null,
  worker     text,
  started_at timestamptz not null,
  ended_at   timestamptz not null,
  error      text,
  state      text                    -- the state of the message after the attempt: ready, scheduled or dead
) partition by list (slot);
alter table penstock.attempt_log replica identity full;
create index attempt_log_xid on penstock.attempt_log (xid, message_id);
create index attempt_log_message on penstock.attempt_log (message_id);

--: for each history slot
create table penstock.history_log_{slot} partition of penstock.history_log for values in ({slot});
create table penstock.attempt_log_{slot} partition of penstock.attempt_log for values in ({slot});
alter table penstock.history_log_{slot} replica identity full;
alter table penstock.attempt_log_{slot} replica identity full;
--: end

-- When each time slot was started. The newest is the one that is written to. A row changes about once a day.
create table penstock.history_slot (
  slot       smallint primary key,
  begun_at   timestamptz not null
);
insert into penstock.history_slot values (0, now());

-- The time slots that were truncated, and the last transaction that had written to each.
create table penstock.history_dropped (
  dropped_at  timestamptz not null default clock_timestamp(),
  slot        smallint not null,
  through_xid xid8 not null
);
alter table penstock.history_dropped replica identity full;
