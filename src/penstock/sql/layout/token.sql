-- Tokens and holds: the proof of a lease, in one number of 64 bits.
--
-- A claim moves its messages to leased_N, or leases them in place in lane_N. The token says which, and where to look.
--
--   leased_N:   63      62    61                          17 16          5    4    3       0
--             +-------+-----+------------------------------+-------------+----+----------+
--             | by id |  0  | number of the claim          | random bits | h  | segment  |
--             +-------+-----+------------------------------+-------------+----+----------+
--
--   lane_N:     63      62    61   60             45 44       21 20      5    4    3       0
--             +-------+-----+----+------------------+-----------+----------+----+----------+
--             |   0   |  1  | 0  | end of the lease | block     | line     | h  | segment  |
--             +-------+-----+----+------------------+-----------+----------+----+----------+
--
-- by id      set for leases that are settled by the id of the message alone: the index leased_N_id has these leases
-- number     for an internal queue, 44 random bits are added to it. Otherwise a consumer could try the 4,096 tokens
--            that a claim of an admin may have, and settle a message of a queue that it may not use
-- random     a sequence may repeat a number after a crash, for a claim whose commit did not wait for the disk. These
-- bits       keep the holder of the first lease from settling the second one
-- end        16 bits of the time when the lease ends, which distinguish two leases of one message in one place
-- block,     the ctid of the message: settling it needs no index. A lane has room for 2^24 blocks of leased messages
-- line
-- h          set (value 16) if the queue keeps history, or has members of batches: settling the message then takes more
--            than a DELETE
-- segment    N, from 0 to 8
--
-- The column hold of lane_N is 0 for a ready message. For a message that is leased in place it is:
--
--               63                                               11 10         1   0
--             +----------------------------------------------------+-------------+---+
--             | end of the lease, in microseconds since 1970       | random bits | h |
--             +----------------------------------------------------+-------------+---+
--
-- The random bits distinguish claims of the same moment. The time fits until the year 2112. The end of the lease in the
-- token is the lowest 16 bits of the time. A mark is the part that a token and a hold share: these 16 bits, then h.

--: define token.segment(token) as ({token} & 15)
--: define token.history_bit as 16
--: define token.leaves_history(token) as ({token} & 16 <> 0)
--: define token.leaves_no_history(token) as ({token} & 16 = 0)
--: define token.segment_and_history(token) as ({token} & 31)
--: define token.is_moved(token) as ({token} < 4611686018427387904)
--: define token.is_in_place(token) as ({token} >= 4611686018427387904)
--: define token.lease_end(token) as ({token} >> 45)
--: define token.by_id as bigint '-9223372036854775808'

-- The number of a new claim; history_bit and the segment are added to it.
--: define token.new_number as ((nextval('penstock.lease_number') * 4096 + (random() * float8 '4095')::integer) * 32)

-- Added to the number of a claim of an internal queue.
--: define token.secret(queue) as
case when {queue} ^@ 'penstock.' then ('x' || right(gen_random_uuid()::text, 11))::bit(44)::bigint << 17
      else bigint '0' end
--: end

-- The parts of a token for a lease in place: the part that all tokens of a claim share, and the place of one message.
--: define token.in_place_from(mark) as (4611686018427387904 + (({mark} >> 1)::bigint << 45) + (({mark} & 1) << 4))
--: define token.of_place(place) as (('x' || encode(tidsend({place}), 'hex'))::bit(48)::bigint << 5)
--: define token.place(token) as format('(%s,%s)', {token} >> 21 & 16777215, {token} >> 5 & 65535)::tid
--: define token.mark(token) as (({token} >> 45 & 65535) * 2 + ({token} >> 4 & 1))::integer
--: define token.place_limit as '(16777216,0)'

--: define hold.of(until, logged) as ({hold.time({until})} | ((random() * 1023)::integer << 1) | {logged}::integer)
--: define hold.time(moment) as ((date_part('epoch', {moment}) * 1e6)::bigint << 11)
--: define hold.until(hold) as to_timestamp(({hold} >> 11) / 1e6::double precision)
--: define hold.mark(hold) as ({hold} >> 10 & 131070 | ({hold} & 1))::integer
-- A hold that is greater than this ends after the moment.
--: define hold.at(moment) as ({hold.time({moment})} | 2047)
