-- What a queue holds, in PGMQ's words. Exact up to 20,000 messages in a state, above that estimated from a sample: see
-- penstock.stats. The ages are those of the oldest and the newest message in the queue, whatever its state; in a queue so
-- deep that it is not counted, of those at the ends of its lanes.
create or replace function pgmq.metrics(queue_name text) returns pgmq.metrics_result
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q penstock.queue := pgmq._queue(queue_name);
  p penstock.pgmq_queue;
  s penstock.queue_stats := penstock.stats(q.name);
  r pgmq.metrics_result;
  oldest timestamptz;
  newest timestamptz;
begin
  select * into p from penstock.pgmq_queue t where t.queue_id = q.id;
  r.queue_name := metrics.queue_name;
  r.queue_length := s.ready + s.scheduled + s.leased;
  r.queue_visible_length := s.ready;
  r.scrape_time := now();
  r.total_messages := coalesce(pg_sequence_last_value(p.sent_register), r.queue_length);
  if r.queue_length > 0 then
    if s.estimated then
      select e.oldest, e.newest into oldest, newest from pgmq._lane_ends(q) e;
    else
      select min(m.enqueued_at), max(m.enqueued_at) into oldest, newest from pgmq._messages(q.id) m;
    end if;
    r.oldest_msg_age_sec := greatest(0, date_part('epoch', now() - oldest))::integer;
    r.newest_msg_age_sec := greatest(0, date_part('epoch', now() - newest))::integer;
  end if;
  return r;
end $$;

select penstock._unroll($unroll$
create or replace function pgmq._lane_ends(q penstock.queue, out oldest timestamptz, out newest timestamptz) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  rank smallint;
begin
  oldest := (select min(s.enqueued_at) from (select enqueued_at from penstock.scheduled where queue_id = q.id order by due_at limit 1000) s);
  newest := (select max(s.enqueued_at) from (select enqueued_at from penstock.scheduled where queue_id = q.id order by due_at desc limit 1000) s);
  foreach rank in array q.priorities loop
    --[
    oldest := least(oldest, (select r.enqueued_at from penstock.ready_{slot} r where r.queue_id = q.id and r.priority = rank order by r.position limit 1));
    newest := greatest(newest, (select r.enqueued_at from penstock.ready_{slot} r where r.queue_id = q.id and r.priority = rank order by r.position desc limit 1));
    --]
  end loop;
end $$;
$unroll$);

create or replace function pgmq.metrics_all() returns setof pgmq.metrics_result
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text;
begin
  for name in select m.queue_name from pgmq.meta m order by m.queue_name loop
    return next pgmq.metrics(name);
  end loop;
end $$;
