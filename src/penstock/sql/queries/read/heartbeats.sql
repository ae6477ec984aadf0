-- The workers that were seen within a day, by name. No locks.
select worker, state, alive, started_at, seen_at, hostname, pid, version, running, queues::text,
       takes_commands, command
  from penstock.heartbeats
 order by worker
