-- Moves the next rows of a lane in a segment to leased_N, group tokens included. Returns how many.
-- Locks: the rows, with SKIP LOCKED, by _pick. Uses lane_N_order.
create or replace function penstock._take_special(slot integer, q penstock.queue, lane integer, wanted integer,
  lease_token bigint, until timestamptz, worker text)
returns integer language plpgsql as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  places  tid[] := penstock._pick(slot, q.id, q.priorities[lane], {register.value(q.floors[lane])},
    wanted, false, penstock._alone() or statement_timestamp() <= transaction_timestamp() + {timing.autocommit});
  n       integer;
begin
  --: branch on slot
  with taken as (
    delete from penstock.lane_{slot} where ctid = any (places) returning *)
  insert into penstock.leased_{slot} (token, lease_until, position, watched, id, enqueued_at, expires_at,
    first_claimed_at, claimed_at, queue_id, priority, attempt, max_attempts, body_slot, worker, key, group_key, headers,
    payload, payload_bytes, last_error)
  select lease_token, until, t.position, t.key is not null or q.max_in_flight is not null, t.id, t.enqueued_at,
    t.expires_at, coalesce(t.first_claimed_at, started), started, t.queue_id, t.priority, t.attempt + 1, t.max_attempts,
    t.body_slot, _take_special.worker, t.key, t.group_key, t.headers, t.payload, t.payload_bytes, t.last_error
  from taken t;
  --: end
  get diagnostics n = row_count;
  return n;
end $$;
