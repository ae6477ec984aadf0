-- The tasks of a service, the latest first: all of them, or those with a status, of a queue, or one by its id. Uses
-- service_task_queue.
select t.id::text, t.kind, q.name, t.status, t.result::text, t.error_message,
       case when t.waiting_since is not null then s.error_message end, t.failures, t.created_by, t.created_at,
       t.finished_at
  from penstock.service_task t
  join penstock.service_queue q on q.id = t.queue_id
  join penstock.service s on s.id = q.service_id
 where %(service)s::text in (s.name, s.id::text) and s.removed_at is null
   and (%(task)s::uuid is null or t.id = %(task)s::uuid)
   and (%(queue)s::text is null or q.name = %(queue)s::text)
   and (%(queues)s::text[] is null or q.name = any (%(queues)s::text[]))
   and (%(status)s::text is null or t.status = %(status)s::text)
   and (%(before)s::uuid is null
        or (t.created_at, t.id)
           < (select b.created_at, b.id from penstock.service_task b where b.id = %(before)s::uuid))
 order by t.created_at desc, t.id desc
 limit %(limit)s::integer
