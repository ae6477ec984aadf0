-- What every queue holds, in one go: what a page that shows all queues asks for every few seconds. Counted where the
-- tables are small, else estimated from a sample of their blocks, always the same ones, so that the numbers do not
-- dance; a queue with few messages is counted even then, along its index.
-- No locks but ACCESS SHARE.
create or replace function penstock.all_stats() returns setof penstock.queue_stats
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  few    constant integer := 200;
  share  double precision[] := penstock._shares();
  g      record;     -- what the sample says of a queue
  s      penstock.queue_stats;
  n      bigint;
  first  timestamptz;
begin
  for g in
    select q, coalesce(sum(t.n) filter (where t.state = 'in lanes'), 0)::bigint as in_lanes, coalesce(sum(t.n) filter (where t.state = 'ready'), 0)::bigint as ready,
           coalesce(sum(t.n) filter (where t.state = 'scheduled'), 0)::bigint as scheduled, coalesce(sum(t.n) filter (where t.state = 'leased'), 0)::bigint as leased,
           coalesce(sum(t.n) filter (where t.state = 'dead'), 0)::bigint as dead, min(t.first) as first
    from penstock.queue q left join penstock._sample(share, now_at) t on t.queue_id = q.id group by q.id order by q.name
  loop
    s := ((g.q).name, g.ready + g.in_lanes, g.scheduled, g.leased, g.dead, null, share[2] < 100 or share[4] < 100);
    select h.n, h.first into n, first from penstock._lane_heads(g.q, case when share[1] < 100 and g.in_lanes < few then few else 1 end) h;
    if share[1] < 100 and g.in_lanes < few and n < few then
      s.ready := g.ready + n;
    elsif share[1] < 100 then
      s.estimated := true;
    end if;
    if share[3] < 100 then
      n := (select count(*) from (select from penstock.scheduled t where t.queue_id = (g.q).id and t.due_at > now_at and t.group_key is null limit few) c);
      s.scheduled := case when n < few then n else greatest(n, g.scheduled) end;
      s.estimated := s.estimated or n >= few;
    end if;
    if share[5] < 100 then
      n := (select count(*) from (select from penstock.dead t where t.queue_id = (g.q).id limit few) c);
      s.dead := case when n < few then n else greatest(n, g.dead) end;
      s.estimated := s.estimated or n >= few;
    end if;
    first := least(first, g.first);
    s.oldest_ready_seconds := case when first is not null then greatest(0, date_part('epoch', now_at - first)) end;
    return next s;
  end loop;
end $$;

select penstock._unroll($unroll$
-- How much of each kind of table is looked at, in percent: ready, leased, scheduled, grouped, dead.
create or replace function penstock._shares() returns double precision[] language sql stable set search_path = pg_catalog, pg_temp as $$
  select array[least(100, 100.0 * 2000 * 8192 / greatest(1, 0
    --[
    + pg_relation_size('penstock.lane_{slot}')
    --]
    )), least(100, 100.0 * 2000 * 8192 / greatest(1, 0
    --[
    + pg_relation_size('penstock.leased_{slot}')
    --]
    )), least(100, 100.0 * 1000 * 8192 / greatest(1, pg_relation_size('penstock.scheduled'))),
    least(100, 100.0 * 1000 * 8192 / greatest(1, pg_relation_size('penstock.grouped'))),
    least(100, 100.0 * 1000 * 8192 / greatest(1, pg_relation_size('penstock.dead')))]::double precision[]
$$;

-- What a sample of the blocks says of each queue: how many in each state, and since when those that are ready outside the lanes
-- (due, of a group, or with a lease that ran out) wait.
create or replace function penstock._sample(share double precision[], now_at timestamptz)
returns table (queue_id integer, state text, n double precision, first timestamptz) language plpgsql stable set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
begin
  return query
  select s.queue_id, case when s.due_at > now_at then 'scheduled' else 'ready' end, count(*) * 100 / share[3], min(s.enqueued_at) filter (where s.due_at <= now_at)
  from penstock.scheduled s tablesample system (share[3]) repeatable (1) where s.group_key is null group by 1, 2
  union all
  select g.queue_id, case when g.visible_at > now_at then 'scheduled' else 'ready' end, count(*) * 100 / share[4], min(g.enqueued_at) filter (where g.visible_at <= now_at)
  from penstock.grouped g tablesample system (share[4]) repeatable (1) group by 1, 2
  union all
  select d.queue_id, 'dead', count(*) * 100 / share[5], null from penstock.dead d tablesample system (share[5]) repeatable (1) group by 1, 2
  --[
  union all
  select r.queue_id, 'in lanes', count(*) * 100 / share[1], null from penstock.lane_{slot} r tablesample system (share[1]) repeatable (1) where r.group_key is null and r.hold = 0 group by 1, 2
  union all
  select g.queue_id, case when g.lease_until > now_at then 'leased' else 'ready' end, count(*), min(r.enqueued_at) filter (where g.lease_until <= now_at)
  from penstock.grant_{slot} g cross join lateral (
    select r.enqueued_at from penstock.lane_{slot} r
    where r.queue_id = g.queue_id and r.priority = g.priority and r.position between g.first_position and g.last_position and r.hold = g.hold offset 0) r
  group by 1, 2
  union all
  select l.queue_id, case when l.dead_at is not null then 'dead' when l.lease_until > now_at then 'leased' else 'ready' end, count(*) * 100 / share[2],
    min(l.enqueued_at) filter (where l.dead_at is null and l.lease_until <= now_at)
  from penstock.leased_{slot} l tablesample system (share[2]) repeatable (1) group by 1, 2
  --]
  ;
end $$;

-- How many messages wait in the lanes of a queue, up to `most`, and since when the first does. From the floors on: what
-- is dead before them is not walked over, and what a floor hides is hidden for a second at most.
create or replace function penstock._lane_heads(q penstock.queue, most integer, out n bigint, out first timestamptz)
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  lane_n     bigint;
  lane_first timestamptz;
begin
  n := 0;
  for lane in 1 .. cardinality(q.priorities) loop
    select count(*), min(r.enqueued_at) into lane_n, lane_first from (
      select h.enqueued_at from (
        select null::bigint as position, null::timestamptz as enqueued_at where false
        --[
        union all (select r.position, r.enqueued_at from penstock.ready_{slot} r
          where r.queue_id = q.id and r.priority = q.priorities[lane] and r.position >= pg_sequence_last_value(q.floors[lane]) and r.group_key is null
          order by r.position limit most)
        --]
      ) h order by h.position limit most) r;
    n := n + lane_n;
    first := least(first, lane_first);
  end loop;
end $$;
$unroll$);
