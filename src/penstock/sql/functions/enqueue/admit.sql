-- Puts a checked message where it belongs: its group, the schedule, or the current segment. Returns its id.
-- Locks: as enqueue. Indexes: none.
create or replace function penstock._admit(q penstock.queue, m penstock.envelope, due timestamptz) returns bigint
language plpgsql as $$
begin
  if q.max_depth is not null then
    perform penstock._reserve_depth(q, 1);
  end if;
  if m.group_key is not null then
    return penstock._join_group(m, due);
  end if;
  if not penstock._in_block() then
    perform penstock._wake_waiters(q, due), penstock._join_generation(q.id, q.generation_register);
  end if;
  m.id := nextval('penstock.position');
  m := penstock._store_body(m);
  if due is not null then
    perform penstock._put_scheduled(due, m);
  else
    perform penstock._put_ready(m, m.id);
  end if;
  return m.id;
end $$;
