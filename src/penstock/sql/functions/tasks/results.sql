-- get_results returns the kept results of these messages, and the errors of their dead letters, by index lookups only.
-- A message that is missing has not ended, kept no result, or left no dead letter: see get_outcome. state is
-- 'continued' for a step of a chain that is not the last: then the value is the id of the message of the next step.
-- Locks: none. Uses result_pkey and dead_pkey.
create or replace function penstock.get_results(ids bigint[])
returns table (id bigint, state text, value jsonb, error text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select r.id, case when r.next_id is null then 'done' else 'continued' end,
    case when r.next_id is null then r.value else to_jsonb(r.next_id) end, null
  from penstock.result r where r.id = any (ids) and r.expires_at > clock_timestamp()
  union all
  select d.id, 'dead', null, d.last_error from penstock.dead d join penstock.queue q on q.id = d.queue_id
  where d.id = any (ids) and (not q.name ^@ 'penstock.' or penstock._is_admin())
$$;

-- get_result_queue returns the queue of the message of a kept result, which may leave no history. Null if no result is
-- kept, or its queue is not known. Locks: none. Uses result_pkey and queue_pkey.
create or replace function penstock.get_result_queue(id bigint) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select q.name from penstock.result r join penstock.queue q on q.id = r.queue_id
  where r.id = get_result_queue.id and r.expires_at > clock_timestamp()
$$;

-- get_outcome returns the end of a message in any state: its state, its result if one is kept, and its error if
-- it is dead. Nothing if the message left no trace. It may scan the segments, so it is not for every look.
-- Locks: none. Uses result_pkey, history_log_id, and the indexes of find_message.
create or replace function penstock.get_outcome(id bigint)
returns table (state text, value jsonb, error text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  queue text;
begin
  return query select r.state, r.value, r.error from penstock.get_results(array[get_outcome.id]) r
  where r.state <> 'dead';
  if found then
    return;
  end if;
  -- A waiting message whose time to live is over has not been removed yet, and is never delivered.
  select m.queue, case when m.state in ('scheduled', 'ready') and m.expires_at <= clock_timestamp() then 'expired'
    else m.state end, m.last_error into queue, state, error from penstock.find_message(get_outcome.id) m;
  if queue is null then
    select h.queue, h.state, h.last_error into queue, state, error from penstock.history_log h
    where h.id = get_outcome.id order by h.finished_at desc limit 1;
  end if;
  if queue is not null then
    perform penstock._check_internal(queue);
    return next;
  end if;
end $$;

-- Deletes expired results, the oldest first, and returns how many. Workers call it.
-- Locks: the rows, and skips locked ones. Uses result_expires_at.
create or replace function penstock.drop_expired_results(max_count integer default 1000) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  dropped bigint;
begin
  delete from penstock.result where id = any (array(
    select r.id from penstock.result r where r.expires_at <= clock_timestamp() order by r.expires_at
    limit drop_expired_results.max_count for update skip locked));
  get diagnostics dropped = row_count;
  return dropped;
end $$;
