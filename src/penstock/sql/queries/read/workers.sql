-- The leases of each worker and queue, and the end of the first one. No locks.
select worker, queue, leased, oldest_claimed_at, next_lease_until
  from penstock.workers
 order by worker, queue
