-- Purges of the last hour, which undo_purge can undo if they are not undone. Uses purge_queue.
create or replace view penstock.purges as
select q.name || case when p.is_dead then '.dlq' else '' end as queue, p.count, p.purged_at,
       p.purged_at + interval '1 hour' as undo_until, p.undone_at
from penstock.purge p join penstock.queue q on q.id = p.queue_id
where p.purged_at > clock_timestamp() - interval '1 hour';
