-- The queues of a service, or one of them by name or by its own id. Uses the index on the name.
select q.id::text, q.service_id::text, q.name, q.database_name, q.visibility_timeout_seconds, q.max_attempts,
       q.dlq_enabled, q.status, q.error_message, q.created_at, q.updated_at
  from penstock.service_queue q join penstock.service s on s.id = q.service_id
 where %(service)s::text in (s.name, s.id::text) and s.removed_at is null
   and case when %(id)s::uuid is null then q.deleted_at is null else q.id = %(id)s::uuid end
   and (%(name)s::text is null or q.name = %(name)s::text)
 order by q.created_at, q.name
