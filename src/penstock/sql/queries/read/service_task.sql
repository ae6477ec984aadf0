-- One task of a queue. A queue that was created again under the name of an old one does not show the tasks of the old
-- one. Uses the primary key.
select t.id::text, t.kind, t.status, t.result::text, t.error_message,
       case when t.waiting_since is not null then w.error_message end
  from penstock.service_task t
  join penstock.service_queue q on q.id = t.queue_id
  join penstock.service w on w.id = q.service_id
 where t.id = %(task)s::uuid and t.kind = %(kind)s::text and q.name = %(name)s::text
   and %(service)s::text in (w.name, w.id::text) and w.removed_at is null
   and not exists (select from penstock.service_queue later
                   where later.service_id = q.service_id and later.name = q.name and later.created_at > q.created_at)
