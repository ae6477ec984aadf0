-- What a queue holds. Exact up to about 20,000 messages in a state; above that, estimated from a sample of blocks, so that it
-- stays cheap at ten million.
create or replace function penstock.stats(queue text) returns penstock.queue_stats
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  q      penstock.queue;
  s      penstock.queue_stats;
  slot   integer;
  n      record;
begin
  select * into q from penstock.queue t where t.name = regexp_replace(stats.queue, '\.dlq$', '');
  if not found then
    perform penstock._fail_unknown_queue(stats.queue);
  end if;
  s.queue := stats.queue;
  s.estimated := false;
  s.leased := 0;
  n := penstock._count_some('dead', format('t.queue_id = %s', q.id));
  s.dead := n.total; s.estimated := n.estimated;
  if stats.queue <> q.name then
    s.ready := s.dead; s.scheduled := 0;
    s.oldest_ready_seconds := (select date_part('epoch', now_at - min(d.dead_at)) from penstock.dead d where d.queue_id = q.id);
    return s;
  end if;
  n := penstock._count_some('scheduled', format('t.queue_id = %s and t.group_key is null and t.due_at > %L', q.id, now_at));
  s.scheduled := n.total; s.estimated := s.estimated or n.estimated;
  n := penstock._count_some('scheduled', format('t.queue_id = %s and t.group_key is null and t.due_at <= %L', q.id, now_at));
  s.ready := n.total; s.estimated := s.estimated or n.estimated;
  n := penstock._count_some('grouped', format('t.queue_id = %s and t.visible_at > %L', q.id, now_at));
  s.scheduled := s.scheduled + n.total; s.estimated := s.estimated or n.estimated;
  n := penstock._count_some('grouped', format('t.queue_id = %s and t.visible_at <= %L', q.id, now_at));
  s.ready := s.ready + n.total; s.estimated := s.estimated or n.estimated;
  foreach slot in array penstock._used_slots() loop
    n := penstock._count_some('lane_' || slot, format('t.queue_id = %s and t.group_key is null and t.hold = 0', q.id));
    s.ready := s.ready + n.total; s.estimated := s.estimated or n.estimated;
    n := penstock._count_some('leased_' || slot, format('t.queue_id = %s and t.dead_at is null and t.lease_until > %L', q.id, now_at));
    s.leased := s.leased + n.total; s.estimated := s.estimated or n.estimated;
    n := penstock._count_some('leased_' || slot, format('t.queue_id = %s and t.dead_at is null and t.lease_until <= %L', q.id, now_at));
    s.ready := s.ready + n.total; s.estimated := s.estimated or n.estimated;
    n := penstock._count_some('leased_' || slot, format('t.queue_id = %s and t.dead_at is not null', q.id));
    s.dead := s.dead + n.total; s.estimated := s.estimated or n.estimated;
    n := penstock._count_held(slot, q.id, now_at);
    s.leased := s.leased + n.running; s.ready := s.ready + n.lapsed;
  end loop;
  s.oldest_ready_seconds := penstock._oldest_ready(q, now_at);
  return s;
end $$;

select penstock._unroll($unroll$
-- What is held in the lanes of a queue in a segment, counted by its grants: a backlog behind it is not looked at.
create or replace function penstock._count_held(slot integer, queue_id integer, now_at timestamptz, out running bigint, out lapsed bigint) language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
  --[ slot
  select count(*) filter (where g.lease_until > now_at), count(*) filter (where g.lease_until <= now_at) into running, lapsed
  from penstock.grant_{slot} g cross join lateral (
    select from penstock.lane_{slot} r
    where r.queue_id = g.queue_id and r.priority = g.priority and r.position between g.first_position and g.last_position and r.hold = g.hold offset 0) r
  where g.queue_id = _count_held.queue_id;
  --]
end $$;
$unroll$);

create or replace function penstock._count_some(relation text, condition text, out total bigint, out estimated boolean) language plpgsql as $$
declare
  exact  constant integer := 20000;
  blocks bigint;
  share  double precision;
begin
  execute format('select count(*) from (select from penstock.%I t where %s limit %s) c', relation, condition, exact + 1) into total;
  estimated := total > exact;
  if estimated then
    blocks := pg_relation_size(format('penstock.%I', relation)::regclass) / current_setting('block_size')::integer;
    share := least(100, 100 * 1000.0 / blocks);
    execute format('select greatest(%s, (count(*) * 100 / %s)::bigint) from penstock.%I t tablesample system (%s) where %s', exact, share, relation, share, condition)
    into total;
  end if;
end $$;

-- The age of the oldest ready message: each lane's first is its oldest, but for those that came back.
create or replace function penstock._oldest_ready(q penstock.queue, now_at timestamptz) returns double precision language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  slot   integer;
  lane   integer;
  first  timestamptz;
  oldest timestamptz := (select min(g.enqueued_at) from (select enqueued_at from penstock.grouped t where t.queue_id = q.id and t.visible_at <= now_at limit 1000) g);
begin
  foreach slot in array penstock._used_slots() loop
    for lane in 1 .. cardinality(q.priorities) loop
      execute format('select t.enqueued_at from penstock.ready_%s t where t.queue_id = $1 and t.priority = $2 and t.group_key is null order by t.position limit 1', slot)
      into first using q.id, q.priorities[lane];
      oldest := least(oldest, first);
    end loop;
  end loop;
  return case when oldest is not null then greatest(0, date_part('epoch', now_at - oldest)) end;
end $$;
