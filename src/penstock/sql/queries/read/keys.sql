-- The API keys, newest last, without their hashes. No locks.
select id, name, grants, created_at, created_by, expires_at, revoked_at, revoked_by, live, last_used_at
  from penstock.api_keys
 where live or %(all)s::boolean
 order by created_at, id
