-- The batches with the numbers of their members, up to the latest commit. Uses batch_pkey and batch_change_batch.
create or replace view penstock.batches as
select b.id, b.name,
       case when b.finished_at is not null then 'finished' when b.sealed_at is null then 'open'
            when b.cancelled_at is not null then 'cancelling' else 'running' end as state,
       b.total + c.added as total,
       b.total + c.added - b.done - c.done - b.dead - c.dead - b.expired - c.expired - b.cancelled - c.cancelled
         as pending,
       b.done + c.done as done, b.dead + c.dead as dead, b.expired + c.expired as expired,
       b.cancelled + c.cancelled as cancelled, b.created_at, b.sealed_at, b.finished_at, b.last_error
from penstock.batch b cross join lateral (
  select coalesce(sum(t.added), 0)::bigint as added, coalesce(sum(t.done), 0)::bigint as done,
         coalesce(sum(t.dead), 0)::bigint as dead, coalesce(sum(t.expired), 0)::bigint as expired,
         coalesce(sum(t.cancelled), 0)::bigint as cancelled
  from penstock.batch_change t where t.batch_id = b.id) c;
