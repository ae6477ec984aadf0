-- One task of a queue. Uses the primary key.
select t.id::text, t.kind, t.status, t.result::text, t.error_message
  from penstock.service_task t
  join penstock.service_queue q on q.id = t.queue_id
  join penstock.service s on s.id = q.service_id
 where t.id = %(task)s::uuid and t.kind = %(kind)s::text and q.name = %(name)s::text
   and %(service)s::text in (s.name, s.id::text)
