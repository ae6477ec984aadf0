-- Puts dead letters back into their queue, at attempt 0: all of them, or those that match every filter given; at most
-- max_count, spread out in time at per_second. error_like is compared with the whole error and with the line of it that
-- names the cause. If the queue has a max_depth, only as many as there is room for; PS008 if there is none. Returns how
-- many; with dry_run, how many match. Locks: the rows. Uses dead_queue.
create or replace function penstock.redrive(
  queue text, ids bigint[] default null, error_like text default null, older_than interval default null,
    id_from bigint default null,
  id_to bigint default null, max_count integer default null, per_second numeric default null,
    dry_run boolean default false)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  q       penstock.queue;
  d       penstock.dead;
  m       penstock.envelope;
  due     timestamptz;
  room    bigint;
  n       bigint := 0;
begin
  select * into q from penstock.queue t where t.name = regexp_replace(redrive.queue, '\.dlq$', '');
  if not found then
    perform penstock._fail_unknown_queue(redrive.queue);
  end if;
  if max_count < 0 then
    perform penstock._fail_value('max_count', max_count::text, '0 or more');
  end if;
  if per_second <= 0 then
    perform penstock._fail_value('per_second', per_second::text, 'more than 0');
  end if;
  if older_than < interval '0' then
    perform penstock._fail_value('older_than', older_than::text, '0 or more');
  end if;
  if dry_run then
    select count(*) into n from (
      select from penstock.dead t where t.queue_id = q.id and (ids is null or t.id = any (ids))
        and (error_like is null or t.last_error like error_like
          or penstock._error_line(t.last_error) like error_like)
        and (older_than is null or t.dead_at < started - older_than) and (id_from is null or t.id >= id_from)
          and (id_to is null or t.id <= id_to)
      limit max_count) c;
    return n;
  end if;
  if q.max_depth is not null then
    room := q.max_depth - penstock._depth(q.id, q.max_depth);
    if room <= 0 and exists (select from penstock.dead t where t.queue_id = q.id) then
      perform penstock._fail_no_room(q.name, q.max_depth,
        'has no room for dead letters: it holds its max_depth of %s messages',
        'Nothing was redriven. Redrive again when messages were claimed, or raise max_depth.');
    end if;
    max_count := least(max_count, room);
  end if;
  for d in
    select * from penstock.dead t where t.queue_id = q.id and (ids is null or t.id = any (ids))
      and (error_like is null or t.last_error like error_like
          or penstock._error_line(t.last_error) like error_like)
      and (older_than is null or t.dead_at < started - older_than) and (id_from is null or t.id >= id_from)
        and (id_to is null or t.id <= id_to)
    order by t.id limit max_count for update skip locked
  loop
    delete from penstock.dead t where t.id = d.id;
    m := (d.id, d.enqueued_at, null, d.first_claimed_at, d.claimed_at, null, d.queue_id, d.priority, 0, d.max_attempts,
          d.body_slot, d.worker, d.key, d.group_key, d.headers, d.payload, d.payload_bytes,
          d.last_error)::penstock.envelope;
    due := case when per_second is not null and n > 0
      then started + make_interval(secs => n / per_second::double precision) end;
    n := n + 1;
    perform penstock._revive(q, m, due);
  end loop;
  if n > 0 and not penstock._in_block() then   -- else at commit
    perform penstock._wake_waiters(q);
  end if;
  return n;
end $$;

-- Puts a dead letter back into its queue. Locks: the row of the member of a batch, then as _place_again. Indexes: as
-- these functions.
create or replace function penstock._revive(q penstock.queue, m penstock.envelope, due timestamptz) returns void
language plpgsql as $$
begin
  perform penstock._revive_member(m.id);
  perform penstock._place_again(q, m, due, true);
end $$;
