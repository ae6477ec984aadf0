-- Claims dead letters, from '<queue>.dlq'. Locks: ROW EXCLUSIVE on the current segment; the rows, with SKIP LOCKED.
-- Uses dead_queue.
--: variant by_id
--:   penstock._lease_number() => penstock._lease_number() + {token.by_id}
--:   penstock._claim_dead( => penstock._claim_dead_by_id(
--:   _claim_dead. => _claim_dead_by_id.
create or replace function penstock._claim_dead(dlq text, count integer, lease_seconds integer, worker text)
returns setof penstock.lease
language plpgsql as $$
#variable_conflict use_column
declare
  started    timestamptz := clock_timestamp();
  lease_base bigint := penstock._lease_number();
  q          penstock.queue;
  slot integer;
begin
  select * into q from penstock.queue t where t.name || '.dlq' = dlq;
  if not found then
    perform penstock._fail_unknown_queue(dlq);
  end if;
  lease_base := lease_base + {token.secret(q.name)}
    + case when q.keep_history > 0 or q.has_members then {token.history_bit} else 0 end;
  perform penstock._bury_again(q.id, started, count);
  slot := penstock._lock_current();
  --: branch on slot
  return query
  with taken as (
    delete from penstock.dead where id = any (array(
      select d.id from penstock.dead d where d.queue_id = q.id order by d.id limit count for update skip locked))
        returning *)
  insert into penstock.leased_{slot} as l (token, lease_until, position, watched, id, enqueued_at, first_claimed_at,
    claimed_at, dead_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers, payload,
    payload_bytes, last_error)
  select lease_base + {slot}, started + make_interval(secs => coalesce(_claim_dead.lease_seconds, q.lease_seconds)),
    t.id, false, t.id, t.enqueued_at, t.first_claimed_at, started, t.dead_at, t.queue_id, t.priority,
    least(t.attempt + 1, {limit.attempt}), t.max_attempts, t.body_slot, _claim_dead.worker, t.key,
    t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error
  from taken t order by t.id
  returning {lease.row(l, dlq, q.name)};
  --: end
end $$;
