-- The schedules, or the one that is named. No locks; uses the index on the name.
select name, queue, cron, time_zone, payload::text, headers::text, key, priority, group_key, ttl_seconds, max_attempts,
       missed, missed_after_seconds, paused, next_fire_at, last_fire_at, last_message_id, last_error, created_at,
       updated_at
  from penstock.schedules
 where %(name)s::text is null or name = %(name)s::text
 order by name
