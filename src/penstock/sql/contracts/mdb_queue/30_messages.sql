-- The unfinished messages. claimed_by is the holder under this contract, or null for a waiting message and for one that
-- was claimed through another interface. The view is a UNION ALL, so that FOR UPDATE stops at the view. In parts where
-- claimed_by is always null, statements with "claimed_by = ..." read nothing. Leases are found by leased_N_id. Locks:
-- ACCESS SHARE, and as penstock.claim for a statement that claims.
create or replace view mdb_queue.messages as
-- This part returns no rows and has a cost. A claim must search for messages (where this part has no cost, because 1 <
-- 0 is never true) before it searches for the rows to update (where it has one). See _rows.
select null::bigint as id, null::text as queue_name, null::jsonb as payload, 1 as attempt_count, 0 as max_attempts,
       null::timestamptz as visible_at, null::text as claimed_by, null::text as last_error, null::timestamptz
         as enqueued_at
from mdb_queue._nothing()
union all
select r.id, q.name, r.payload, r.attempt_count, r.max_attempts, r.visible_at, null, r.last_error, r.enqueued_at
from penstock.queue q
cross join lateral mdb_queue._rows(case when coalesce(current_setting('mdb_queue.lane', true), '') in ('', q.id::text)
  then q.id end, q.name) r
union all
-- An UPDATE that sets last_error is a nack, so the view shows no last_error while a message is held.
--
-- A claim does not read these rows, but has to prepare for it. This took 250 of its 950 us while each segment was a
-- part with separate conditions and expressions. It takes 100 us with one condition before all segments, and one list
-- of expressions after them.
select l.id, mdb_queue._name(l.queue_id),
       case when l.body_slot is null then coalesce(l.payload, to_jsonb(encode(l.payload_bytes, 'base64')))
         else mdb_queue._body(l.body_slot, l.id) end,
       l.attempt::integer, l.max_attempts::integer, l.lease_until, l.worker, null, l.enqueued_at
from (select where not coalesce(current_setting('mdb_queue.act', true), '') ^@ 'claim' offset 0) gate
cross join (
  select token, lease_until, id, enqueued_at, dead_at, queue_id, attempt, max_attempts, body_slot, worker, payload,
    payload_bytes
  from penstock.leased_0 where false
  --: for each segment
  union all
  select token, lease_until, id, enqueued_at, dead_at, queue_id, attempt, max_attempts, body_slot, worker, payload,
    payload_bytes
  from penstock.leased_{slot}
  --: end
) l
where l.token < 0 and l.dead_at is null;

-- Dead letters that are not leased. A DELETE cancels a dead letter. Locks: ACCESS SHARE. Uses dead_queue and dead_pkey.
create or replace view mdb_queue.dead_messages with (security_barrier) as
select d.id, q.name as queue_name,
       case when d.body_slot is null then coalesce(d.payload, to_jsonb(encode(d.payload_bytes, 'base64')))
         else mdb_queue._body(d.body_slot, d.id) end
         as payload,
       d.attempt::integer as attempt_count, d.max_attempts::integer as max_attempts, d.worker as claimed_by,
         d.last_error, d.enqueued_at, d.dead_at
from penstock.dead d join penstock.queue q on q.id = d.queue_id where not q.name ^@ 'penstock.';
