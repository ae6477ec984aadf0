-- Deletes the history and the attempts of the demo's queues, and the heartbeats of demo workers that were killed.
-- History that a lake may have landed stays until it is too old, like that of any dropped queue: `penstock lake verify`
-- compares both. Returns whether history was deleted. Scans the history; locks the rows that it deletes.
with is_free as materialized (
  select not exists (select from penstock.lake) as value),
history as (
  delete from penstock.history_log where queue = any (%(queues)s::text[]) and (select value from is_free)),
attempts as (
  delete from penstock.attempt_log where queue = any (%(queues)s::text[]) and (select value from is_free)),
heartbeats as (
  delete from penstock.heartbeat where worker ~ %(workers)s::text)
select value from is_free
