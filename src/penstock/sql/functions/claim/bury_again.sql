-- Dead letters whose leases have expired become dead letters again, as far as a claim of them needs. Locks: the rows,
-- with SKIP LOCKED. Uses leased_N_until.
create or replace function penstock._bury_again(queue_id integer, until timestamptz, piece integer) returns void
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  --: for each segment
  with gone as (
    delete from penstock.leased_{slot} where ctid = any (array(
      select l.ctid from penstock.leased_{slot} l
      where l.lease_until <= until and l.queue_id = _bury_again.queue_id and l.dead_at is not null
      order by l.lease_until limit piece for update skip locked)) returning *)
  insert into penstock.dead
  select g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority,
    g.attempt, g.max_attempts, g.body_slot, g.worker, g.key, g.group_key, g.headers, g.payload, g.payload_bytes,
    'the lease expired' from gone g;
  --: end
end $$;
