-- The last assigned id (about how many messages were ever enqueued), and how often the safety net has found a
-- message that no claim had seen. Reads two sequences.
select coalesce(pg_sequence_last_value('penstock.position'), 0), penstock.rescans_that_found()
