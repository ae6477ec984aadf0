-- Counters of what has ended in each queue, and the state of notifications about findings.
-- Clients from version 1 on work with it.
-- Counters for monitoring systems: what has ended in each queue since its first count. penstock.count_finished adds to
-- them from history, a few times a minute and only for queues where something has ended. So few updates leave too few
-- dead rows to matter, even while the MVCC horizon is held back.
create table penstock.queue_counter (
  queue text not null,
  event text not null constraint event_is_known check (
    event in ('done', 'dead', 'expired', 'cancelled', 'superseded', 'failed_attempt', 'expired_lease', 'dead_letter')),
  count bigint not null,
  primary key (queue, event)
) with (fillfactor = 50);

-- How far history has been counted: the snapshot that the last count saw, and the database that it belongs to.
create table penstock.counted_history (
  snapshot   pg_snapshot not null,
  database   text not null,
  counted_at timestamptz not null,
  only_row   boolean primary key default true check (only_row)
) with (fillfactor = 50);

-- The one server that sends notifications, for as long as it renews this lease.
create table penstock.notifier (
  holder      text not null,
  lease_until timestamptz not null,
  only_row    boolean primary key default true check (only_row)
) with (fillfactor = 50);

-- The findings that a destination of notifications was told about, and that are not over.
create table penstock.announcement (
  destination   text not null,
  finding       text not null,
  kind          text not null,
  severity      text not null constraint severity_is_known check (severity in ('critical', 'warning', 'note')),
  title         text not null,
  since         timestamptz not null,
  missing_since timestamptz,
  primary key (destination, finding)
);
