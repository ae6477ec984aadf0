-- Worker processes that were seen within a day. alive: seen within half a minute, which is three beats. A beat with a
-- time in the future, from a clock that was ahead, does not count. takes_commands: false for workers of a version that
-- does not know commands. command: quiet or stop, null if it should work. Scans the workers.
create or replace view penstock.heartbeats as
select h.worker, case when h.state = 'running' and h.report @> '{"quiet": true}' then 'quiet' else h.state end as state,
       abs(date_part('epoch', clock_timestamp() - h.seen_at)) < 30 as alive, h.started_at, h.seen_at,
       h.report ->> 'hostname' as hostname, jsonb_path_query_first(h.report,
         '$.pid ? (@.type() == "number" && @ >= 0 && @ < 10000000000)')::bigint as pid,
       h.report ->> 'version' as version,
       coalesce((select sum(n::bigint) from jsonb_path_query(h.report,
         'lax $.queues.*.running ? (@.type() == "number" && @ >= 0 && @ < 1000000)') n), 0)::bigint as running,
       coalesce(h.report -> 'queues', '{}') as queues, h.report @> '{"takes_commands": true}' as takes_commands,
       case when h.command_for = h.started_at then h.command end as command
from penstock.heartbeat h;
