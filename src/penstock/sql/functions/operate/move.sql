-- Puts waiting messages and dead letters into another queue, and keeps their ids. A dead letter starts again at its
-- first attempt. Messages that are leased or finished, or in the queue already, are skipped. If a message with the same
-- key waits in the other queue, the older of the two is superseded. PS008 if the queue has no room, and PS005 if a
-- payload is larger than it allows: then no message is moved. Returns how many were moved. Locks: the rows. Indexes: as
-- cancel, and as enqueue.
create or replace function penstock.move(ids bigint[], queue text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q     penstock.queue;
  taken record;
  n     bigint := 0;
  wanted bigint;
begin
  if cardinality(ids) > {limit.messages} or ids is null then
    perform penstock._fail_value('ids', cardinality(ids)::text, 'up to {limit.messages} ids');
  end if;
  select * into q from penstock.queue t where t.name = move.queue;
  if not found then
    perform penstock._fail_unknown_queue(move.queue);
  end if;
  if q.name ^@ 'penstock.' then
    perform penstock._check_internal(q.name);
  end if;
  for wanted in select distinct i from unnest(ids) i order by i loop
    taken := penstock._take_waiting(wanted, true, q.id, null);
    continue when taken.state is null;
    perform penstock._check_size(q, taken.m);
    if (taken.m).key is not null then
      perform penstock._forget_key((taken.m).queue_id, (taken.m).key, wanted);
    end if;
    -- A batch follows its members: see functions/batches.
    if not q.has_members and exists (select from penstock.batch_member b where b.id = wanted) then
      update penstock.queue t set has_members = true where t.id = q.id;
      q.has_members := true;
    end if;
    if taken.state = 'dead' and q.has_members then
      perform penstock._revive_member(wanted);
    end if;
    taken.m.queue_id := q.id;
    perform penstock._place_again(q, taken.m, taken.due_at, true);
    n := n + 1;
  end loop;
  if n > 0 and not penstock._in_block() then   -- else at commit
    perform penstock._wake_waiters(q);
  end if;
  return n;
end $$;

-- Refuses a message whose payload is larger than the queue allows. Locks: none. Indexes: as _body_bytes.
create or replace function penstock._check_size(q penstock.queue, m penstock.envelope) returns void
language plpgsql as $$
declare
  size bigint;
begin
  if m.body_slot is null then
    size := coalesce(octet_length(m.payload_bytes), penstock._text_bytes(m.payload));
  else
    size := coalesce(octet_length(penstock._body_bytes(m.body_slot, m.id)),
      penstock._text_bytes(penstock._body_json(m.body_slot, m.id)));
  end if;
  if size > q.max_payload_bytes then
    perform penstock._fail_too_large(q, size);
  end if;
end $$;
