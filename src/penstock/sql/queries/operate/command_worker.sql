-- Sends a command to a worker, and records it, in one transaction. Locks and indexes: as penstock.command_worker.
select penstock.record_activity(%(actor)s::text, %(command)s::text || ' worker', %(worker)s::text)
  from penstock.command_worker(%(worker)s::text, %(command)s::text)
