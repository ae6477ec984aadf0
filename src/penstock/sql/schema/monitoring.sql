-- Counters for monitoring systems: the messages that ended in each queue since its first count. penstock.count_finished
-- adds to them from history, a few times a minute and only for queues where something has ended. So few updates leave
-- too few dead rows to matter, even while the MVCC horizon is held back.
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

-- The findings that were sent to a destination of notifications and are not over.
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

-- The charts of the UI: what happened in each queue in each minute, and in each hour. Queue 0 stands for all queues.
-- Rows are only inserted. A late transaction inserts a second row for the same time, and readers add both up. ready,
-- leased, scheduled and dead are null in such a row. waits and runs count messages by duration, as pairs of a bucket
-- (penstock._duration_bucket) and a number, so that the durations of several rows can be added up.
-- Minutes are kept for 24 to 36 hours in slots 0 to 3, hours for 90 to 120 days in slots 4 to 8. Old slots are
-- truncated.
create table penstock.chart_point (
  slot      smallint not null,
  queue_id  integer not null,
  is_hour   boolean not null,
  estimated boolean not null default false,
  at        timestamptz not null,
  ready     bigint,
  leased    bigint,
  scheduled bigint,
  dead      bigint,
  done      bigint not null default 0,
  failed    bigint not null default 0,
  died      bigint not null default 0,
  waits     integer[],
  runs      integer[]
) partition by list (slot);
alter table penstock.chart_point replica identity full;
create index chart_point_at on penstock.chart_point (queue_id, is_hour, at);
create table penstock.chart_point_0 partition of penstock.chart_point for values in (0);
create table penstock.chart_point_1 partition of penstock.chart_point for values in (1);
create table penstock.chart_point_2 partition of penstock.chart_point for values in (2);
create table penstock.chart_point_3 partition of penstock.chart_point for values in (3);
create table penstock.chart_point_4 partition of penstock.chart_point for values in (4);
create table penstock.chart_point_5 partition of penstock.chart_point for values in (5);
create table penstock.chart_point_6 partition of penstock.chart_point for values in (6);
create table penstock.chart_point_7 partition of penstock.chart_point for values in (7);
create table penstock.chart_point_8 partition of penstock.chart_point for values in (8);
alter table penstock.chart_point_0 replica identity full;
alter table penstock.chart_point_1 replica identity full;
alter table penstock.chart_point_2 replica identity full;
alter table penstock.chart_point_3 replica identity full;
alter table penstock.chart_point_4 replica identity full;
alter table penstock.chart_point_5 replica identity full;
alter table penstock.chart_point_6 replica identity full;
alter table penstock.chart_point_7 replica identity full;
alter table penstock.chart_point_8 replica identity full;

-- How far the charts go: the history that they include, as a snapshot of a database, the last minute whose depths were
-- recorded, and the end of the last hour that was added up from its minutes. The row changes once a minute.
create table penstock.chart_progress (
  snapshot      pg_snapshot not null default '1:1:',
  database      text,
  history_since timestamptz not null default '-infinity',   -- messages that ended earlier are not counted
  recorded_at   timestamptz,                                -- the end of the last minute whose depths were recorded
  hours_until   timestamptz,
  is_behind     boolean not null default false,             -- there is more history than the last call has counted
  cleared       bigint[] not null default '{-1, -1}',       -- the periods of minutes and hours with room for the next
  only_row      boolean primary key default true check (only_row)
) with (fillfactor = 50);
insert into penstock.chart_progress default values;
