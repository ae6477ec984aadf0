-- The queues and states of messages by id. Those of finished messages are read from history. No locks.
select distinct on (id) id, queue, state
  from (select 0 as turn, id, queue, state, null::timestamptz as finished_at from penstock.messages
         where id = any (%(ids)s::bigint[])
        union all
        select 1, id, queue, state, finished_at from penstock.history where id = any (%(ids)s::bigint[])) found
 order by id, turn, finished_at desc
