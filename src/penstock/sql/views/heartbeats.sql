-- Worker processes that were seen within a day. alive: seen within half a minute, which is three beats. A beat with a
-- time in the future, from a clock that was ahead, does not count.
create or replace view penstock.heartbeats as
select h.worker, h.state, abs(date_part('epoch', clock_timestamp() - h.seen_at)) < 30 as alive, h.started_at, h.seen_at,
       h.report ->> 'hostname' as hostname, (h.report ->> 'pid')::bigint as pid, h.report ->> 'version' as version,
       coalesce((select sum((v ->> 'running')::bigint) from jsonb_each(h.report -> 'queues') q (k, v)),
         0)::bigint as running,
       coalesce(h.report -> 'queues', '{}') as queues
from penstock.heartbeat h;
