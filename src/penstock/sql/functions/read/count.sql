-- Counts the messages of a queue by state, with the times of the oldest and the newest. oldest and newest are over all
-- states except dead. A group token is not a message and is not counted.
--
-- While the queue has few messages in a table (20,000, and one for every eight blocks), the table is read along an
-- index of the queue, and lanes from the first row of the queue on. Beyond that, reading the whole table is faster: see
-- _count_table. leased_N has no index on the queue. It is read along leased_N_until, whose dead entries cost less than
-- the dead rows. These statements are static, so that their plans are made once in a session: 10 us each instead of
-- 100. One statement counts both tables of a segment, and adds to the counts. Tables without blocks are not read, nor
-- is an older segment without leased messages if the first row of the queue is in the current one.
--
-- One statement reads the queue and its registers: a session prepares each expression again in every transaction, which
-- costs more than its value. The ring is read after the snapshot was taken, so it names every segment that holds a row
-- which the snapshot shows. It is read before the beginning of the current segment: if it turns in between, all lanes
-- are read. All columns are null if there is no such queue.
-- Locks: ACCESS SHARE. Uses queue_name_key, scheduled_queue, grouped_order, dead_queue, lane_N_order and
-- leased_N_until.
create or replace function penstock._count(queue text, now_at timestamptz, out ready bigint, out scheduled bigint,
  out leased bigint, out dead bigint, out dead_leased bigint, out oldest_ready timestamptz, out oldest timestamptz,
  out newest timestamptz, out oldest_dead timestamptz, out estimated boolean)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  lane_queue integer;
  lanes      smallint[];
  first      bigint;
  past       bigint;
  slots      text;      -- the segments that may hold rows, the current one last
  lone       boolean;   -- the queue has no row in the lanes of older segments
  bytes      bigint;
  few        bigint;
  rows       bigint;
  slot       integer;
  n          record;
  before     record;
begin
  select t.id, t.lanes, t.first, '0' || {ring.not_free({ring.text})}, t.first > {ring.current_from}, {hold.at(now_at)},
    pg_relation_size('penstock.scheduled', 'main'), bigint '0', bigint '0', bigint '0', bigint '0', bigint '0', false
  into lane_queue, lanes, first, slots, lone, past, bytes, ready, scheduled, leased, dead, dead_leased, estimated
  from (select q.id, penstock._first_row(q.id, q.first_row_register, q.first_row_xid_register) as first,
          case when pg_sequence_last_value(q.lanes_register) = q.lane_bits then q.priorities
            else (penstock._with_lanes(q)).priorities end as lanes
        from penstock.queue q where q.name = _count.queue) t;
  if lane_queue is null then
    return;
  end if;

  if bytes > bigint '0' then
    few := {count.few(bytes)};
    select count(*) as total, count(*) filter (where c.at <= now_at) as ready,
      min(c.enqueued_at) filter (where c.at <= now_at) as oldest_ready,
      min(c.enqueued_at) as oldest, max(c.enqueued_at) as newest, false as estimated into n
    from (select t.due_at as at, t.enqueued_at from penstock.scheduled t where t.queue_id = lane_queue
      and t.group_key is null limit few) c;
    if n.total >= few then
      n := penstock._count_table('scheduled', format('t.queue_id = %s and t.group_key is null', lane_queue),
        format('t.due_at <= %L', now_at));
    end if;
    ready := n.ready; scheduled := n.total - n.ready; oldest_ready := n.oldest_ready; oldest := n.oldest;
    newest := n.newest; estimated := n.estimated;
  end if;

  bytes := pg_relation_size('penstock.grouped', 'main');
  if bytes > bigint '0' then
    few := {count.few(bytes)};
    select count(*) as total, count(*) filter (where c.at <= now_at) as ready,
      min(c.enqueued_at) filter (where c.at <= now_at) as oldest_ready,
      min(c.enqueued_at) as oldest, max(c.enqueued_at) as newest, false as estimated into n
    from (select t.visible_at as at, t.enqueued_at from penstock.grouped t where t.queue_id = lane_queue limit few) c;
    if n.total >= few then
      n := penstock._count_table('grouped', format('t.queue_id = %s', lane_queue),
        format('t.visible_at <= %L', now_at));
    end if;
    ready := ready + n.ready; scheduled := scheduled + n.total - n.ready;
    oldest_ready := least(oldest_ready, n.oldest_ready);
    oldest := least(oldest, n.oldest); newest := greatest(newest, n.newest); estimated := estimated or n.estimated;
  end if;

  bytes := pg_relation_size('penstock.dead', 'main');
  if bytes > bigint '0' then
    few := {count.few(bytes)};
    select count(*) as total, min(c.dead_at) as oldest_ready, false as estimated into n
    from (select t.dead_at from penstock.dead t where t.queue_id = lane_queue limit few) c;
    if n.total >= few then
      n := penstock._count_table('dead', format('t.queue_id = %s', lane_queue), 'false', 't.dead_at');
      n.oldest_ready := n.oldest;
    end if;
    dead := n.total; oldest_dead := n.oldest_ready; estimated := estimated or n.estimated;
  end if;

  loop
    slot := right(slots, 1);
    --: branch on slot
    bytes := pg_relation_size('penstock.leased_{slot}', 'main') + case when lone is null then bigint '0'
      else pg_relation_size('penstock.lane_{slot}', 'main') end;
    if bytes > {count.few_bytes} then
      select ready, leased, dead_leased, oldest_ready, oldest, newest into before;
    end if;
    if bytes > bigint '0' then
      select count(*), ready + count(c.ready_at), leased + count(c.at) - count(c.ready_at),
        dead_leased + count(c.dead_at), least(oldest_ready, min(c.ready_at)), least(oldest, min(c.at)),
        greatest(newest, max(c.at))
      into rows, ready, leased, dead_leased, oldest_ready, oldest, newest
      from ((select t.enqueued_at as at, case when t.hold <= past then t.enqueued_at end as ready_at,
               null::timestamptz as dead_at
             from penstock.lane_{slot} t where t.queue_id = lane_queue and t.priority = any (lanes)
               and t.position >= first and t.group_key is null limit {count.few(bytes)})
            union all
            (select case when t.queue_id = lane_queue and t.dead_at is null then t.enqueued_at end,
               case when t.queue_id = lane_queue and t.dead_at is null and t.lease_until <= now_at
                 then t.enqueued_at end,
               case when t.queue_id = lane_queue then t.dead_at end
             from penstock.leased_{slot} t where t.lease_until >= '-infinity' limit {count.few(bytes)})) c;
    end if;
    --: end
    if bytes > {count.few_bytes} and rows >= {count.few(bytes)} then
      n := penstock._count_segment(slot, lane_queue, past, now_at);
      ready := before.ready + n.ready;
      leased := before.leased + n.leased;
      dead_leased := before.dead_leased + n.dead;
      oldest_ready := least(before.oldest_ready, n.oldest_ready);
      oldest := least(before.oldest, n.oldest);
      newest := greatest(before.newest, n.newest);
      estimated := estimated or n.estimated;
    end if;
    slots := left(slots, -1);
    exit when slots = '';
    lone := nullif(lone, true);   -- null from here on: no lanes are read
  end loop;
end $$;

-- Counts the messages of a queue in one segment by reading the tables of the segment as a whole. Locks: ACCESS SHARE.
-- Indexes: none.
create or replace function penstock._count_segment(slot integer, queue_id integer, past bigint, now_at timestamptz,
  out ready bigint, out leased bigint, out dead bigint, out oldest_ready timestamptz, out oldest timestamptz,
  out newest timestamptz, out estimated boolean)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  mine  constant text := format('t.queue_id = %s', queue_id);
  lane  constant record := penstock._count_table('lane_' || slot::text, mine || ' and t.group_key is null',
    format('t.hold <= %s', past));
  moved constant record := penstock._count_table('leased_' || slot::text, mine || ' and t.dead_at is null',
    format('t.lease_until <= %L', now_at));
  gone  constant record := penstock._count_table('leased_' || slot::text, mine || ' and t.dead_at is not null',
    'false');
begin
  ready := lane.ready + moved.ready;
  leased := lane.total + moved.total - ready;
  dead := gone.total;
  oldest_ready := least(lane.oldest_ready, moved.oldest_ready);
  oldest := least(lane.oldest, moved.oldest);
  newest := greatest(lane.newest, moved.newest);
  estimated := lane.estimated or moved.estimated or gone.estimated;
end $$;

-- Counts the messages of one table that meet a condition, and the ready ones among them, by reading the whole table:
-- 0.1 us a message, less with parallel workers. The statement is dynamic, because it needs a plan for the current size
-- of the table. A table of more than 2 GB is estimated from 4,000 of its blocks, always the same ones, so that two
-- counts of the same messages agree. Locks: ACCESS SHARE. Indexes: none.
create or replace function penstock._count_table(relation text, mine text, ready_when text,
  born text default 't.enqueued_at', exact_blocks bigint default 262144, out total bigint, out ready bigint,
  out oldest_ready timestamptz, out oldest timestamptz, out newest timestamptz, out estimated boolean)
language plpgsql stable set search_path = pg_catalog, pg_temp
set enable_seqscan = on set enable_bitmapscan = off set enable_indexscan = off set jit = off as $$
declare
  blocks constant bigint := pg_relation_size(format('penstock.%I',
    relation)::regclass) / current_setting('block_size')::integer;
  share  constant double precision := case when blocks > exact_blocks then least(100, 100.0 * 4000 / blocks) end;
begin
  estimated := share is not null;
  execute format('select count(*), count(*) filter (where %2$s), min(%3$s) filter (where %2$s), min(%3$s), max(%3$s)
                 from penstock.%1$I t %4$s where %5$s', relation, ready_when, born,
                 'tablesample system (' || share || ') repeatable (1)', mine)
  into total, ready, oldest_ready, oldest, newest;
  if estimated then
    total := total * 100 / share;
    ready := ready * 100 / share;
  end if;
end $$;
