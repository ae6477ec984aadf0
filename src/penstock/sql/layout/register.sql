-- Registers. A register is a sequence that is used for its last_value: PostgreSQL updates it in place, outside MVCC.
--
-- Registers that only save work are unlogged: floors, clocks, generations, the first row. Setting one writes no WAL and
-- takes no transaction id, so a claim that found nothing does not wait for the disk when it commits. After a crash, and
-- on a promoted standby, an unlogged sequence has no value. It reads as 0, as on the day it was created: claims look at
-- everything, and everything is due. Only prepared transactions are left from before: see _recall_generations. Logged
-- are the ring, the numbers of messages and leases, the lanes, and the registers of limits and wake-ups.

--: define register.value(register) as coalesce(pg_sequence_last_value({register}), bigint '0')

-- Registers that hold more than one number.
--
-- generation_register of a queue (functions/claim/sweep.sql explains generations):
--
--      63                       22 21           14 13          6 5        3 2         0
--    +----------------------------+---------------+-------------+----------+-----------+
--    | began, in milliseconds     | holders       | set aside   | draining | current   |
--    +----------------------------+---------------+-------------+----------+-----------+
--
-- began       when the current generation began
-- holders     how many transactions hold the generations that were set aside; 255 for more
-- set aside   one bit for each of the eight generations
-- draining    the generation before, or the current one if none is draining
-- current     the generation that enqueuers join

--: define generation.current(state) as ({state} & bigint '7')
--: define generation.draining(state) as ({state} >> 3 & 7)
--: define generation.aside(state) as ({state} >> 6 & 255)
--: define generation.holders(state) as ({state} >> 14 & 255)
--: define generation.began_ms(state) as ({state} >> 22)
--: define generation.state(ms, holders, aside, draining, current) as
(({ms} << 22) | ({holders} << 14) | ({aside} << 6) | ({draining} << 3) | {current})
--: end
--: define generation.last as 7
--: define generation.many as 255
--: define generation.after(generation, n) as ({generation} + {n} & 7)
--: define generation.bit(generation) as (1 << {generation})
--: define generation.contains(aside, generation) as ({aside} >> {generation} & 1 = 1)
--: define generation.lacks(aside, generation) as ({aside} >> {generation} & 1 = 0)

-- lanes_register of a queue: one bit for each priority that was ever used, and one for groups and times to live:
--
--      19            18           10 9            0
--    +-------------+----------------+--------------+
--    | not plain   | 9  ...  1      | 0  ...  -9   |   priority
--    +-------------+----------------+--------------+

--: define lanes.priority(priority) as (1 << ({priority} + 9))
--: define lanes.not_plain as (1 << 19)
--: define lanes.contain(bits, priority) as ({bits} >> ({priority} + 9) & 1 = 1)
--: define lanes.are_plain(bits) as ({bits} >> 19 = 0)
--: define lanes.priority_0 as 512

-- first_row_xid_register of a queue: for which snapshots first_row_register is right (functions/read/first_row.sql):
--
--      63                                20 19                                     0
--    +------------------------------------+----------------------------------------+
--    | xmax of the snapshot that saw it   | a hash of this run of the server       |
--    +------------------------------------+----------------------------------------+

--: define first_row.of(xmax, run) as (({xmax} << 20) | {run})
--: define first_row.xmax(seen) as ({seen} >> 20)::text::xid8
--: define first_row.run(seen) as ({seen} & 1048575)

-- sweep_register of a queue: when the floors are raised next, in microseconds. Its lowest bit is set if no lease of the
-- queue expires before then (functions/claim/quiet.sql).
--: define sweep.is_quiet(sweep) as ({sweep} & bigint '1' = bigint '1')
--: define sweep.quiet(sweep) as ({sweep} | bigint '1')
--: define sweep.not_quiet(sweep) as ({sweep} & ~bigint '1')

-- notify_register of a queue: from when on enqueuers notify, in microseconds; or never, because no consumer waits.
--: define notify.never as {bigint.max}
