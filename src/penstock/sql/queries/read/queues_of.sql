-- The queues of unfinished messages by id. No locks.
select id, queue from penstock.messages where id = any (%(ids)s::bigint[])
