-- The actions of operators on one message, and the action that created it as a copy, the oldest first. Uses
-- activity_log_message and activity_log_copy.
select id, at, actor, act, target, details::text, request_id, address
  from penstock.activity
 where (details ? 'id' and details ->> 'id' = %(message)s::text)
    or (details ? 'copy' and details ->> 'copy' = %(message)s::text)
 order by id
 limit %(limit)s::integer
