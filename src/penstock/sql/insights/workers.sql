-- Who holds leases on what, and until when. No locks.
select worker, queue, leased, oldest_claimed_at, next_lease_until
  from penstock.workers
 order by worker, queue
