-- Deletes the rows of a gold table and a day (UTC) whose keys are not given: those that a lake no longer counts
-- after messages were erased or a day was rebuilt. keys are JSON objects by column name. Returns how many rows went.
-- Quarters of an hour follow the minutes. Locks: the rows. Uses the indexes on day and minute.
create or replace function penstock.trim_gold(gold text, day date, keys jsonb) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  first   timestamptz := day::timestamp at time zone 'UTC';
  trimmed bigint := 0;
begin
  case gold
    when 'queue_minute' then
      delete from penstock.queue_minute g where g.minute >= first and g.minute < first + interval '1 day'
        and not exists (select from jsonb_to_recordset(keys) k (queue text, minute timestamptz)
          where k.queue = g.queue and k.minute = g.minute);
      get diagnostics trimmed = row_count;
      if trimmed > 0 then
        delete from penstock.queue_quarter q where q.quarter >= first and q.quarter < first + interval '1 day'
          and not exists (select from penstock.queue_minute m where m.queue = q.queue and m.minute >= q.quarter
            and m.minute < q.quarter + interval '15 min');
        -- The trigger of the table adds up the quarters of rows that are written.
        update penstock.queue_minute g set finished = g.finished
          where g.minute >= first and g.minute < first + interval '1 day';
      end if;
    when 'worker_minute' then
      delete from penstock.worker_minute g where g.minute >= first and g.minute < first + interval '1 day'
        and not exists (select from jsonb_to_recordset(keys) k (queue text, worker text, minute timestamptz)
          where k.queue = g.queue and k.worker = g.worker and k.minute = g.minute);
      get diagnostics trimmed = row_count;
    when 'queue_day' then
      delete from penstock.queue_day g where g.day = trim_gold.day
        and not exists (select from jsonb_to_recordset(keys) k (queue text) where k.queue = g.queue);
      get diagnostics trimmed = row_count;
    when 'error_day' then
      delete from penstock.error_day g where g.day = trim_gold.day
        and not exists (select from jsonb_to_recordset(keys) k (queue text, error_fingerprint text)
          where k.queue = g.queue and k.error_fingerprint = g.error_fingerprint);
      get diagnostics trimmed = row_count;
    else
      perform penstock._fail_value('gold', gold, 'queue_minute, queue_day, error_day or worker_minute');
  end case;
  return trimmed;
end $$;
