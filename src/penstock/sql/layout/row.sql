-- Rows that several functions write or return: each is listed once.

-- The row of penstock.lease for a message in leased_N. queue: the name that the caller asked for. original_queue: set
-- for dead letters.
--: define lease.row(l, queue, original_queue) as
{l}.id, {l}.token, {queue}, case when {l}.body_slot is null then {l}.payload
    else penstock._body_json({l}.body_slot, {l}.id) end, case when {l}.body_slot is null then {l}.payload_bytes
    else penstock._body_bytes({l}.body_slot, {l}.id) end, {l}.headers, {l}.key, {l}.priority::integer, {l}.group_key,
    {l}.attempt::integer, {l}.max_attempts::integer, {l}.enqueued_at, {l}.lease_until, {l}.expires_at, {l}.last_error,
    {original_queue}
--: end

-- Whether a message is surely no member of a batch. A token says that a queue has members if the claim saw so, but the
-- first members of a queue may be committed between the statement that looks at the queue and the one that takes
-- messages. So the statements that only delete a message look at its header, which add_to_batch writes for each member.
--: define is_no_member(m) as ({m}.headers is null or not {m}.headers ? 'penstock-batch')

-- A row of history for a finished message, as the beginning of an INSERT ... SELECT. A message that is done in one
-- statement has no body; _finish fetches the body of the others first.
--: define history.insert(m, queue, state, finished_at, last_error) as
insert into penstock.history_log (slot, id, queue, state, enqueued_at, first_claimed_at, last_claimed_at, finished_at,
      attempts, max_attempts, priority, payload_bytes_count, headers_bytes_count, worker, key, group_key, last_error,
      headers, payload, payload_bytes)
    select pg_sequence_last_value('penstock.history_current'), {m}.id, {queue}, {state}, {m}.enqueued_at,
      {m}.first_claimed_at, {m}.claimed_at, {finished_at}, {m}.attempt, {m}.max_attempts, {m}.priority,
      coalesce(octet_length({m}.payload_bytes), octet_length({m}.payload::text)),
      coalesce(octet_length({m}.headers::text), 0), {m}.worker, {m}.key, {m}.group_key, {last_error}, {m}.headers,
      {m}.payload, {m}.payload_bytes
--: end

-- The limit of a payload of a queue without max_payload_bytes, and the most that the other columns of a lease take.
--: define payload.default_bytes as 262144
--: define payload.beside_bytes as 24000

-- From so many rows on, counts read a table as a whole: 20,000, and one for every eight blocks. A table of fewer bytes
-- than few_bytes has fewer rows.
--: define count.few(bytes) as (20000 + {bytes} / 65536)
--: define count.few_bytes as bigint '1000000'
