-- Writes rows of gold that are new or differ. rows are JSON objects by column name. Returns the number of changed rows.
-- Rows by minute are kept for 35 days. Locks: the rows. Uses the primary keys of the gold tables.
create or replace function penstock.publish_gold(gold text, rows jsonb) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  target  regclass := case when gold in ('queue_minute', 'queue_day', 'error_day', 'worker_minute')
    then ('penstock.' || gold)::regclass end;
  key     text;
  columns text;
  values  text;
  changed bigint;
begin
  if target is null then
    perform penstock._fail_value('gold', gold, 'queue_minute, queue_day, error_day or worker_minute');
  end if;
  select string_agg(quote_ident(attname), ', '), string_agg('excluded.' || quote_ident(attname), ', ') into columns,
    values
  from pg_attribute where attrelid = target and attnum > 0 and not attisdropped;
  select string_agg(quote_ident(a.attname), ', ') into key
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey) where i.indrelid = target
    and i.indisprimary;
  execute format('insert into %1$s as g (%2$s) select %2$s from jsonb_populate_recordset(null::%1$s, $1)
    on conflict (%3$s) do update set (%2$s) = (%4$s) where (%5$s) is distinct from (%4$s)',
    target, columns, key, values, 'g.' || replace(columns, ', ', ', g.')) using rows;
  get diagnostics changed = row_count;
  return changed;
end $$;

-- Updates the rows by quarter of an hour when the rows by minute change. 50th percentiles are weighted means, and 95th
-- and 99th are those of the worst minute. Calls run one at a time: if two calls change minutes of one quarter, the
-- later one must see the rows of the earlier one. Locks: an advisory lock until commit. Uses queue_minute_pkey.
create or replace function penstock._roll_gold() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('penstock gold', 0));
  insert into penstock.queue_quarter
  select m.queue, c.quarter, sum(m.finished), sum(m.done), sum(m.dead), sum(m.expired + m.cancelled + m.superseded),
    sum(m.failed_attempts), sum(m.wait_seconds_p50 * m.finished) / nullif(sum(m.finished), 0), max(m.wait_seconds_p95),
    max(m.wait_seconds_p99), sum(m.work_seconds_p50 * m.finished) / nullif(sum(m.finished), 0), max(m.work_seconds_p95),
    max(m.work_seconds_p99), max(m.backlog_age_seconds), sum(m.payload_bytes)
  from (select distinct queue, date_bin('15 min', minute, 'epoch') as quarter from changed) c
  join penstock.queue_minute m on m.queue = c.queue and m.minute >= c.quarter
    and m.minute < c.quarter + interval '15 min'
  group by m.queue, c.quarter
  on conflict (queue, quarter) do update set (finished, done, dead, others, failed_attempts, wait_seconds_p50,
      wait_seconds_p95, wait_seconds_p99, work_seconds_p50, work_seconds_p95, work_seconds_p99, backlog_age_seconds,
      payload_bytes)
    = row (excluded.finished, excluded.done, excluded.dead, excluded.others, excluded.failed_attempts,
      excluded.wait_seconds_p50, excluded.wait_seconds_p95, excluded.wait_seconds_p99, excluded.work_seconds_p50,
      excluded.work_seconds_p95, excluded.work_seconds_p99, excluded.backlog_age_seconds, excluded.payload_bytes);
  return null;
end $$;
