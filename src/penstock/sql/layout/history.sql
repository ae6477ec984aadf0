-- Time slots of history: history_log_N and attempt_log_N. The register penstock.history_current holds the slot that
-- takes the inserts. The next slot is the first free one after it. Slot 0 comes after the last one.

--: define history.last_slot as 15
-- How many slots come between a slot and the current one, counted forwards from the current one.
--: define history.distance(slot, current) as ({slot} - {current} + 16) % 16
