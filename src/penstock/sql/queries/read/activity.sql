-- The actions of operators, the latest first. The next page is `before` the last id of this one. Uses the primary key.
select id, at, actor, act, target, details::text, request_id, address
  from penstock.activity
 where (%(before)s::bigint is null or id < %(before)s::bigint)
   and (%(actor)s::text is null or actor = %(actor)s::text)
   and (%(target)s::text is null or target = %(target)s::text)
 order by id desc
 limit %(limit)s::integer
