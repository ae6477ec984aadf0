-- Counts the messages of every queue, for a page that shows all queues every few seconds. Counts are exact up to 64 MB
-- of ready messages, about 110,000 of 200 bytes. Above that they are estimated from a sample of blocks, always the same
-- ones, so that two calls on the same messages agree. A queue with few messages is counted along its index even then.
-- The function is STABLE, so that one snapshot shows every message once: see stats. Locks: ACCESS SHARE. Uses
-- lane_N_order for small queues.
create or replace function penstock.all_stats() returns setof penstock.queue_stats
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
#variable_conflict use_column
declare
  now_at   timestamptz := clock_timestamp();
  few      constant integer := 200;
  share    constant double precision[] := penstock._shares();
  complete constant boolean := 100 = all (share);
  g        record;     -- the sampled counts of one queue
  n        record;
begin
  if complete then
    return query select * from penstock.exact_stats();
    return;
  end if;
  for g in
    select q, coalesce(sum(t.n) filter (where t.state = 'ready'), 0)::bigint as ready,
      coalesce(sum(t.n) filter (where t.state = 'scheduled'), 0)::bigint as scheduled,
           coalesce(sum(t.n) filter (where t.state = 'leased'), 0)::bigint as leased,
             coalesce(sum(t.n) filter (where t.state = 'dead'), 0)::bigint as dead,
           min(t.first) as first
    from penstock.queue q left join penstock._sample(share, now_at) t on t.queue_id = q.id group by q.id order by q.name
  loop
    if greatest(g.ready, g.scheduled, g.leased, g.dead) < few then
      n := penstock._count((g.q).name, now_at);
      return next ((g.q).name, n.ready, n.scheduled, n.leased, n.dead + n.dead_leased,
        penstock._age(n.oldest_ready, now_at), n.estimated)::penstock.queue_stats;
    else
      return next ((g.q).name, g.ready, g.scheduled, g.leased, g.dead,
        penstock._age(least(g.first, penstock._lane_head(g.q)), now_at), true)::penstock.queue_stats;
    end if;
  end loop;
end $$;

-- Returns the percentage of each kind of table to sample: lanes, leased, scheduled, grouped, dead. Locks: none. Reads
-- relation sizes.
create or replace function penstock._shares() returns double precision[] language sql stable
set search_path = pg_catalog, pg_temp as $$
  select array_agg(case when bytes <= 8000 * 8192 then 100 else 100.0 * 2000 * 8192 / bytes end
    order by kind)::double precision[]
  from (values
    (1, 0
    --: for each segment
    + pg_relation_size('penstock.lane_{slot}')
    --: end
    ), (2, 0
    --: for each segment
    + pg_relation_size('penstock.leased_{slot}')
    --: end
    ), (3, pg_relation_size('penstock.scheduled')), (4, pg_relation_size('penstock.grouped')),
      (5, pg_relation_size('penstock.dead'))) size (kind, bytes)
$$;

-- Returns for each queue the number of sampled messages in each state, and the enqueue time of the oldest ready one. If
-- only a part of the lanes is sampled, messages leased in place are looked up by their grants, because they are stored
-- together and a sample would hit all of them or none. Locks: ACCESS SHARE. Scans the tables, or samples of them, and
-- uses lane_N_order for grants.
create or replace function penstock._sample(share double precision[], now_at timestamptz)
returns table (queue_id integer, state text, n double precision, first timestamptz) language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off set plan_cache_mode = force_generic_plan
  as $$
#variable_conflict use_column
declare
  past constant bigint := penstock._hold_at(now_at);
  slot integer;
begin
  return query
  select s.queue_id, case when s.due_at > now_at then 'scheduled' else 'ready' end, count(*) * 100 / share[3],
    min(s.enqueued_at) filter (where s.due_at <= now_at)
  from penstock.scheduled s tablesample system (share[3]) repeatable (1) where s.group_key is null group by 1, 2
  union all
  select g.queue_id, case when g.visible_at > now_at then 'scheduled' else 'ready' end, count(*) * 100 / share[4],
    min(g.enqueued_at) filter (where g.visible_at <= now_at)
  from penstock.grouped g tablesample system (share[4]) repeatable (1) group by 1, 2
  union all
  select d.queue_id, 'dead', count(*) * 100 / share[5], null
    from penstock.dead d tablesample system (share[5]) repeatable (1) group by 1, 2;
  foreach slot in array penstock._used_slots() loop
    --: branch on slot
    return query
    select c.queue_id, case when c.leased then 'leased' else 'ready' end, c.n * 100 / share[1], case when not c.leased
      then c.first end
    from (select r.queue_id, r.hold > past as leased, count(*) as n, min(r.enqueued_at) as first
          from penstock.lane_{slot} r tablesample system (share[1]) repeatable (1) where r.group_key is null
            and (r.hold = 0 or share[1] = 100) group by 1, 2) c
    union all
    select g.queue_id, case when g.lease_until > now_at then 'leased' else 'ready' end, count(*),
      min(r.enqueued_at) filter (where g.lease_until <= now_at)
    from penstock.grant_{slot} g cross join lateral (
      select r.enqueued_at from penstock.lane_{slot} r
      where r.queue_id = g.queue_id and r.priority = g.priority and r.position between g.first_position
        and g.last_position and r.hold = g.hold offset 0) r
    where share[1] < 100 group by 1, 2
    union all
    select l.queue_id, case when l.dead_at is not null then 'dead' when l.lease_until > now_at then 'leased'
      else 'ready' end, count(*) * 100 / share[2], min(l.enqueued_at) filter (where l.dead_at is null
      and l.lease_until <= now_at)
    from penstock.leased_{slot} l tablesample system (share[2]) repeatable (1) group by 1, 2;
    --: end
  end loop;
end $$;

-- Returns the enqueue time of the first message in the lanes of a queue, which a sample might miss. Locks: ACCESS
-- SHARE. Uses lane_N_order.
create or replace function penstock._lane_head(q penstock.queue) returns timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer;
  rank smallint;
  head timestamptz;
begin
  foreach slot in array penstock._used_slots() loop
    foreach rank in array (penstock._with_lanes(q)).priorities loop
      --: branch on slot
      head := least(head, (select t.enqueued_at from penstock.lane_{slot} t
                           where t.queue_id = q.id and t.priority = rank and t.hold = 0 and t.group_key is null
                             order by t.position limit 1));
      --: end
    end loop;
  end loop;
  return head;
end $$;
