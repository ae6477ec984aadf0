-- The latest purge of a queue that can be undone. No locks.
select queue, count, purged_at, undo_until
  from penstock.purges
 where queue = %(queue)s::text and undone_at is null
 order by purged_at desc
 limit 1
