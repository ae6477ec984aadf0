-- The newest batches, with the numbers of their members. No locks; uses batch_pkey and batch_change_batch.
select id, name, state, total, pending, done, dead, expired, cancelled, created_at, sealed_at, finished_at, last_error
  from penstock.batches
 where %(before)s::bigint is null or id < %(before)s
 order by id desc
 limit %(count)s::integer
