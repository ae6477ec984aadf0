-- Every subscription by name, or one. Uses the primary key.
select name, queue, url, concurrency, timeout_seconds, enabled, disabled_reason, version, delivered, failed,
       last_delivered_at, last_error, last_error_at, created_by, created_at, updated_at, secret
  from penstock.subscription
 where %(name)s::text is null or name = %(name)s::text
 order by name
