-- Drops a queue with all its messages, and returns their number. Its history stays until it is too old. Refused while
-- there are messages or schedules, unless force is true.
-- Locks: the row of the queue until commit. Uses lane_N_order, scheduled_queue, grouped_order and dead_queue.
create or replace function penstock.drop_queue(name text, force boolean default false) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q        penstock.queue;
  n        bigint;
  register regclass;
begin
  select * into q from penstock.queue t where t.name = drop_queue.name for update;
  if not found then
    perform penstock._fail_unknown_queue(drop_queue.name);
  end if;
  n := penstock._depth(q.id, 1000000000) + (select count(*) from penstock.dead d where d.queue_id = q.id)
    + (select count(*) from penstock._dead_leases(q.id));
  if n > 0 and not force then
    perform penstock._fail('PS011', format('queue %L is not empty: it has %s %s', q.name, n,
      case n when 1 then 'message' else 'messages' end),
      jsonb_build_object('queue', q.name, 'count', n), 'Purge it first, or drop it with force => true.');
  end if;
  if exists (select from penstock.schedule s where s.queue_id = q.id) and not force then
    perform penstock._fail('PS017', format('queue %L has schedules: %s', q.name,
      (select string_agg(s.name, ', ' order by s.name) from penstock.schedule s where s.queue_id = q.id)),
      jsonb_build_object('queue', q.name),
      'Drop them first, or drop the queue with force => true.');
  end if;
  if q.has_members then
    -- Their batches do not wait for messages that were deleted.
    perform penstock.purge(q.name, include_leased => true), penstock.purge(q.name || '.dlq');
  end if;
  delete from penstock.schedule s where s.queue_id = q.id;
  delete from penstock.purge p where p.queue_id = q.id;
  delete from penstock.scheduled t where t.queue_id = q.id;
  delete from penstock.grouped t where t.queue_id = q.id;
  delete from penstock.message_group t where t.queue_id = q.id;
  delete from penstock.message_key t where t.queue_id = q.id;
  delete from penstock.dead t where t.queue_id = q.id;
  --: for each segment
  delete from penstock.body_{slot} b where b.id in (
    select id from penstock.lane_{slot} t where t.queue_id = q.id and t.body_slot is not null
    union all select id from penstock.leased_{slot} t where t.queue_id = q.id and t.body_slot is not null);
  delete from penstock.lane_{slot} t where t.queue_id = q.id;
  delete from penstock.leased_{slot} t where t.queue_id = q.id;
  --: end
  -- This comes after the leases, because a transaction that archives one of them has ended by now.
  delete from penstock.pgmq_archive t where t.queue_id = q.id;
  delete from penstock.queue t where t.id = q.id;
  foreach register in array q.floors || q.sweep_register || q.rescan_register || q.generation_register
    || q.mark_register
      || q.settled_register || q.lanes_register || q.first_row_register || q.first_row_xid_register
        || q.throughput_register || q.depth_register || q.notify_register || q.waiting_register loop
    if register is not null then
      execute format('drop sequence %s', register);
    end if;
  end loop;
  return n;
end $$;

-- Returns the number of leased dead letters of a queue. Locks: ACCESS SHARE. Scans leased_N.
create or replace function penstock._dead_leases(queue_id integer) returns setof bigint language plpgsql as $$
#variable_conflict use_column
begin
  --: for each segment
  return query select id from penstock.leased_{slot} l where l.queue_id = _dead_leases.queue_id
    and l.dead_at is not null;
  --: end
end $$;
