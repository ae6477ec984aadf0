-- Counts the messages of a queue. Counts are exact up to 2 GB of waiting messages in one table, and estimated from a
-- sample of blocks above that. The function is STABLE, so that everything is counted with the snapshot of the caller's
-- statement, and a message that moves from one table to another is counted once. Locks: ACCESS SHARE. Indexes: see
-- _count.
create or replace function penstock.stats(queue text) returns penstock.queue_stats
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := clock_timestamp();
  parent constant text := case when right(stats.queue, 4) = '.dlq' then left(stats.queue, -4) else stats.queue end;
  n      record;
begin
  if stats.queue ^@ 'penstock.' then
    perform penstock._check_internal(stats.queue);
  end if;
  n := penstock._count(parent, now_at);
  if n.ready is null then
    perform penstock._fail_unknown_queue(stats.queue);
  elsif stats.queue = parent then
    return (stats.queue, n.ready, n.scheduled, n.leased, n.dead + n.dead_leased, penstock._age(n.oldest_ready, now_at),
      n.estimated)::penstock.queue_stats;
  end if;
  return (stats.queue, n.dead, 0, 0, n.dead, penstock._age(n.oldest_dead, now_at), n.estimated)::penstock.queue_stats;
end $$;

-- Returns the seconds since a moment, 0 if the clock was set back since, or null without a moment.
create or replace function penstock._age(since timestamptz, now_at timestamptz) returns double precision
language sql immutable as $$
  select case when since > now_at then 0 else date_part('epoch', now_at - since) end
$$;
