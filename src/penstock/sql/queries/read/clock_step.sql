-- The number of seconds by which the server's clock was set back, if no claim has corrected the registers since. Reads
-- registers only.
select penstock.clock_step() as step_seconds
