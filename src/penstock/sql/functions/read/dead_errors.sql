-- Groups the newest dead letters by the line of their error that names the cause, of one queue or of all: how many,
-- and the first and last ids and times. Looks at `sample` of them. Locks: ACCESS SHARE. Uses dead_queue, or
-- dead_pkey.
create or replace function penstock.dead_errors(queue text default null, sample integer default 5000)
returns table (original_queue text, error text, count bigint, first_id bigint, last_id bigint,
  first_dead_at timestamptz, last_dead_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set jit = off as $$
#variable_conflict use_column
declare
  chosen integer := (select q.id from penstock.queue q where q.name = regexp_replace(dead_errors.queue, '\.dlq$', ''));
begin
  if dead_errors.queue is not null and chosen is null then
    perform penstock._fail_unknown_queue(dead_errors.queue);
  end if;
  if chosen is null then
    return query select q.name, c.error, c.n, c.first_id, c.last_id, c.first_at, c.last_at from (
      select t.queue_id, t.error, count(*) as n, min(t.id) as first_id, max(t.id) as last_id,
        min(t.dead_at) as first_at, max(t.dead_at) as last_at from (
        select d.queue_id, penstock._error_line(d.last_error) as error, d.id, d.dead_at from penstock.dead d
          order by d.id desc limit sample) t
      group by t.queue_id, t.error) c join penstock.queue q on q.id = c.queue_id;
  else
    return query select (select q.name from penstock.queue q where q.id = chosen), t.error, count(*), min(t.id),
      max(t.id), min(t.dead_at), max(t.dead_at) from (
      select penstock._error_line(d.last_error) as error, d.id, d.dead_at from penstock.dead d
        where d.queue_id = chosen order by d.id desc limit sample) t
    group by t.error;
  end if;
end $$;
