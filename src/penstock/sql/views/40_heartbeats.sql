-- Worker processes that were seen within a day. alive: within the last half minute, which is three beats.
create or replace view penstock.heartbeats as
select h.worker, h.state, h.seen_at > clock_timestamp() - interval '30 seconds' as alive, h.started_at, h.seen_at,
       h.report ->> 'hostname' as hostname, (h.report ->> 'pid')::bigint as pid, h.report ->> 'version' as version,
       coalesce((select sum((v ->> 'running')::bigint) from jsonb_each(h.report -> 'queues') q (k, v)), 0)::bigint as running,
       coalesce(h.report -> 'queues', '{}') as queues
from penstock.heartbeat h;
