-- The ids of signed tokens that were ended within the last day. No locks; uses the primary key.
select idempotency_key
  from penstock.idempotent_answer
 where actor = %(actor)s::text
