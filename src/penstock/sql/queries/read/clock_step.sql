-- By how many seconds the server's clock was put back, if no claim has corrected the registers since. Reads registers
-- only.
select penstock.clock_step() as step_seconds
