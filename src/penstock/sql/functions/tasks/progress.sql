-- report_progress stores the reports of running tasks: parallel arrays. fractions[i] and notes[i] replace
-- the earlier ones, unless they are null. logs is an array with one array of new lines for each message, or null. The
-- last 100 lines are kept, 500 characters of each. A new attempt begins with an empty log.
-- Locks: the rows. Uses progress_pkey.
create or replace function penstock.report_progress(ids bigint[], attempts integer[], fractions real[], notes text[],
  logs jsonb default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock._check_pairs(ids, attempts, 'attempts');
  perform penstock._check_pairs(ids, fractions, 'fractions');
  perform penstock._check_pairs(ids, notes, 'notes');
  insert into penstock.progress as p (id, attempt, fraction, note, log, updated_at)
  select distinct on (u.id) u.id, u.attempt,
    case when u.fraction is not null then least(greatest(u.fraction, 0), 1) end, left(u.note, 500),
    coalesce((select array_agg(left(line, 500) order by n) from (
      select line, n, count(*) over () as count
      from jsonb_array_elements_text(case when jsonb_typeof(logs -> (u.place - 1)::integer) = 'array'
                                          then logs -> (u.place - 1)::integer end) with ordinality l (line, n)) e
      where e.n > e.count - 100), '{}'),
    clock_timestamp()
  from unnest(ids, attempts, fractions, notes) with ordinality u (id, attempt, fraction, note, place)
  order by u.id, u.place desc
  on conflict on constraint progress_pkey do update
  set attempt = excluded.attempt, updated_at = excluded.updated_at,
    fraction = case when p.attempt = excluded.attempt then coalesce(excluded.fraction, p.fraction)
                    else excluded.fraction end,
    note = case when p.attempt = excluded.attempt then coalesce(excluded.note, p.note) else excluded.note end,
    log = case when p.attempt = excluded.attempt
               then (p.log || excluded.log)[greatest(1, cardinality(p.log || excluded.log) - 99) :]
               else excluded.log end;
end $$;

-- Returns the last report of the task of a message, or nothing. Locks: none. Uses progress_pkey.
create or replace function penstock.get_progress(id bigint)
returns table (attempt integer, fraction real, note text, log text[], updated_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select p.attempt::integer, p.fraction, p.note, p.log, p.updated_at from penstock.progress p
  where p.id = get_progress.id
$$;

-- Deletes reports that are a day old, and returns how many. Locks: the rows, and skips locked ones. Uses
-- progress_updated_at.
create or replace function penstock._drop_progress(max_count integer) returns integer language plpgsql as $$
declare
  dropped integer;
begin
  delete from penstock.progress where id = any (array(
    select p.id from penstock.progress p where p.updated_at < clock_timestamp() - interval '1 day'
    order by p.updated_at limit max_count for update skip locked));
  get diagnostics dropped = row_count;
  return dropped;
end $$;
