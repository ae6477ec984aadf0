-- Keeps gold by the quarter of an hour in step with gold by the minute, whoever writes that. 50th percentiles are
-- weighted means, 95th and 99th those of the worst minute. One at a time: of two that publish minutes of one quarter,
-- the later one must see what the earlier one wrote.
create or replace function penstock._roll_gold() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('penstock gold', 0));
  insert into penstock.queue_quarter
  select m.queue, c.quarter, sum(m.finished), sum(m.done), sum(m.dead), sum(m.expired + m.cancelled + m.superseded), sum(m.failed_attempts),
    sum(m.wait_seconds_p50 * m.finished) / nullif(sum(m.finished), 0), max(m.wait_seconds_p95), max(m.wait_seconds_p99),
    sum(m.work_seconds_p50 * m.finished) / nullif(sum(m.finished), 0), max(m.work_seconds_p95), max(m.work_seconds_p99),
    max(m.backlog_age_seconds), sum(m.payload_bytes)
  from (select distinct queue, date_bin('15 min', minute, 'epoch') as quarter from changed) c
  join penstock.queue_minute m on m.queue = c.queue and m.minute >= c.quarter and m.minute < c.quarter + interval '15 min'
  group by m.queue, c.quarter
  on conflict (queue, quarter) do update set (finished, done, dead, others, failed_attempts, wait_seconds_p50, wait_seconds_p95, wait_seconds_p99,
      work_seconds_p50, work_seconds_p95, work_seconds_p99, backlog_age_seconds, payload_bytes)
    = row (excluded.finished, excluded.done, excluded.dead, excluded.others, excluded.failed_attempts, excluded.wait_seconds_p50,
      excluded.wait_seconds_p95, excluded.wait_seconds_p99, excluded.work_seconds_p50, excluded.work_seconds_p95, excluded.work_seconds_p99,
      excluded.backlog_age_seconds, excluded.payload_bytes);
  return null;
end $$;

create or replace trigger roll_new after insert on penstock.queue_minute referencing new table as changed
for each statement execute function penstock._roll_gold();
create or replace trigger roll_changed after update on penstock.queue_minute referencing new table as changed
for each statement execute function penstock._roll_gold();

-- What was published before there were quarters.
update penstock.queue_minute set queue = queue where not exists (select from penstock.queue_quarter);
