-- Looks at rows that a claim has just taken: expired messages go to history, and each group token is exchanged for the
-- next message of its group. Returns how many rows had no message to deliver. Locks: the messages it takes. Uses
-- leased_N_token, grouped_order.
create or replace function penstock._resolve(slot integer, lease_token bigint, until timestamptz, worker text)
returns integer language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  l       penstock.leased_0;
  head    penstock.grouped;
  nothing integer := 0;
begin
  --: branch on slot
  for l in select * from penstock.leased_{slot} t where t.token = lease_token
           and (t.expires_at <= started or t.group_key is not null and t.payload is null and t.payload_bytes is null
             and t.body_slot is null) loop
    delete from penstock.leased_{slot} t where t.token = lease_token and t.id = l.id and t.group_key is not distinct
      from l.group_key;
    if l.group_key is null then
      l.attempt := l.attempt - 1;
      perform penstock._finish(penstock._envelope(l), 'expired', null);
      nothing := nothing + 1;
    else
      head := penstock._next_of_group(l.queue_id, l.group_key, l.id);
      if head.id is null then
        perform penstock._issue_group_token(l.queue_id, l.group_key, l.id, true);
        nothing := nothing + 1;
      else
        insert into penstock.leased_{slot} (token, lease_until, position, watched, id, enqueued_at, expires_at,
          first_claimed_at, claimed_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key,
          headers, payload, payload_bytes, last_error)
        values (lease_token, until, head.position, l.watched
          or head.key is not null, head.id, head.enqueued_at, head.expires_at,
          coalesce(head.first_claimed_at, started), started, head.queue_id, head.priority, head.attempt + 1,
            head.max_attempts, head.body_slot,
          _resolve.worker, head.key, head.group_key, head.headers, head.payload, head.payload_bytes, head.last_error);
      end if;
    end if;
  end loop;
  --: end
  return nothing;
end $$;

-- Takes the next visible message of a group whose group token we have. Expired messages go to history. Returns nothing
-- if another transaction has locked that message: to skip it would break the order. Locks: that message, with SKIP
-- LOCKED. Uses grouped_order and grouped_id.
create or replace function penstock._next_of_group(queue_id integer, group_key text, after bigint)
returns penstock.grouped language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  head    penstock.grouped;
begin
  loop
    select * into head from penstock.grouped g
    where g.queue_id = _next_of_group.queue_id and g.group_key = _next_of_group.group_key and g.position > after
    order by g.position limit 1;
    if head.id is null or head.visible_at > started and coalesce(head.expires_at > started, true) then
      return null;
    end if;
    delete from penstock.grouped where ctid = any (array(
      select g.ctid from penstock.grouped g where g.id = head.id for update skip locked)) returning * into head;
    if not found then
      return null;
    end if;
    exit when head.expires_at > started or head.expires_at is null;
    perform penstock._finish(penstock._envelope(head), 'expired', null);
  end loop;
  return head;
end $$;
