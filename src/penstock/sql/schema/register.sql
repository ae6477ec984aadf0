-- Registers of the whole database. penstock.queue names those of each queue. All of them are sequences that are used
-- for their last_value, which changes in place, outside MVCC. Registers hold hints and clocks, and one truth: the ring.
-- layout/register.sql says why most of them are unlogged.

create sequence penstock.ring minvalue 0;              -- the segments in use: layout/ring.sql draws it
create sequence penstock.ring_until minvalue 0;        -- the position from which on the next segment is used
create sequence penstock.ring_turned_at minvalue 0;    -- when the current segment was taken, in microseconds
--: for each segment
-- the time from which segment {slot} was empty, in microseconds
create unlogged sequence penstock.drained_{slot} minvalue 0;
--: end

-- Clocks: when something is done next, in microseconds since 1970.
create unlogged sequence penstock.tick_at minvalue 0;           -- look whether there is upkeep to do
create unlogged sequence penstock.ring_check_at minvalue 0;     -- look whether segments can be closed
create unlogged sequence penstock.upkeep_at minvalue 0;         -- the upkeep that is due every minute
create unlogged sequence penstock.timer_rescan_at minvalue 0;   -- look below the floors of the timers
create sequence penstock.clock_was_at minvalue 0;      -- what the clock showed before it was set back, or 0

-- Floors of the timers: everything due, or expired, up to this moment has been dealt with. In microseconds.
create unlogged sequence penstock.lease_floor minvalue 0;
create unlogged sequence penstock.due_floor minvalue 0;

-- How many generations have begun, and how many of these beginnings are over, in all queues. An enqueue that finds both
-- numbers equal, and unchanged at its end, knows that it has joined the right generation. Both start at 1: the first
-- nextval must differ from the 0 that stands for a register without a value.
create unlogged sequence penstock.flips_begun minvalue 0 start 1;
create unlogged sequence penstock.flips_over minvalue 0 start 1;

create sequence penstock.rescans_found minvalue 0;     -- how often a rescan has found a message below a floor
create sequence penstock.history_current minvalue 0;   -- the time slot that history is written to

--: for each segment
select setval('penstock.drained_{slot}', 0);
--: end
select setval('penstock.ring', {ring.first}), setval('penstock.ring_until', {ring.share}),
       setval('penstock.ring_turned_at', 0),
       setval('penstock.tick_at', 0), setval('penstock.ring_check_at', 0), setval('penstock.upkeep_at', 0),
       setval('penstock.timer_rescan_at', 0), setval('penstock.clock_was_at', 0),
       setval('penstock.lease_floor', 0), setval('penstock.due_floor', 0),
       setval('penstock.flips_begun', 0), setval('penstock.flips_over', 0),
       setval('penstock.rescans_found', 0), setval('penstock.history_current', 0);
