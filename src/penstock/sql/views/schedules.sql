-- The schedules with their settings, their last and their next fire. Uses schedule_name_key.
create or replace view penstock.schedules as
select s.name, q.name as queue, s.cron, s.time_zone, s.payload, s.headers, s.key, s.priority::integer, s.group_key,
       s.ttl_seconds, s.max_attempts::integer, s.missed, s.missed_after_seconds, s.paused, case when not s.paused
       then nullif(s.next_fire_at, 'infinity') end as next_fire_at,
       s.last_fire_at, s.last_message_id, s.last_error, s.created_at, s.updated_at
from penstock.schedule s join penstock.queue q on q.id = s.queue_id;
