-- Counts the messages of a queue in PGMQ's terms. penstock.stats describes when counts are exact. The ages are those of
-- the oldest and the newest message of any state. Locks: ACCESS SHARE. Indexes: see penstock._count.
create or replace function pgmq.metrics(queue_name text) returns pgmq.metrics_result
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  queue constant text := case when not lower(queue_name) ^@ 'penstock.' then lower(queue_name) end;
  n     constant record := penstock._count(queue, clock_timestamp());
  r     pgmq.metrics_result;
begin
  if n.ready is null then
    perform pgmq._queue(queue_name);   -- raises the error
  end if;
  r.queue_name := metrics.queue_name;
  r.queue_length := n.ready + n.scheduled + n.leased;
  r.queue_visible_length := n.ready;
  r.scrape_time := now();
  r.total_messages := coalesce((select pg_sequence_last_value(p.sent_register) from penstock.pgmq_queue p
    where p.key = queue), r.queue_length);
  r.oldest_msg_age_sec := penstock._age(n.oldest, now());
  r.newest_msg_age_sec := penstock._age(n.newest, now());
  return r;
end $$;


-- Returns the metrics of every queue. Locks: ACCESS SHARE. Indexes: as metrics.
create or replace function pgmq.metrics_all() returns setof pgmq.metrics_result
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text;
begin
  for name in select m.queue_name from pgmq.meta m order by m.queue_name loop
    return next pgmq.metrics(name);
  end loop;
end $$;
