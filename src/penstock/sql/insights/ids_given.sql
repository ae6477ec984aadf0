-- The last id that was given out: about how many messages were ever enqueued. One look at a sequence.
select coalesce(pg_sequence_last_value('penstock.position'), 0)
