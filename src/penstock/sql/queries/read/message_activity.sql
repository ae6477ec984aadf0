-- What operators did to one message, and which act made it as a copy, oldest first. Uses activity_log_message and
-- activity_log_copy.
select id, at, actor, act, target, details::text, request_id, address
  from penstock.activity
 where (details ? 'id' and details ->> 'id' = %(message)s::text)
    or (details ? 'copy' and details ->> 'copy' = %(message)s::text)
 order by id
 limit %(limit)s::integer
