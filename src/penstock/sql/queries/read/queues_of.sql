-- The queues that live messages are in. No locks.
select id, queue from penstock.messages where id = any (%(ids)s::bigint[])
