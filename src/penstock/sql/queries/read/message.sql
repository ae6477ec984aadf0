-- One message by id, with its attempts as JSON, in their order. A finished message is read from history. No locks.
-- Leased messages are scanned only if history does not have the message.
select found.*,
       (select json_agg(json_build_array(a.message_id, a.queue, a.attempt, a.worker, a.started_at, a.ended_at, a.error)
                        order by a.started_at, a.attempt)
          from penstock.attempts a
         where a.message_id = found.id)::text
  from (select 0 as turn, id, queue, state, payload::text, payload_bytes, headers::text, key, priority, group_key,
               attempt, max_attempts, enqueued_at, visible_at, expires_at, first_claimed_at, claimed_at, lease_until,
               null::timestamptz as finished_at, dead_at, worker, last_error, original_queue
          from penstock.find_message(%(id)s::bigint,
            not exists (select from penstock.history where id = %(id)s::bigint))
        union all
        select 1, id, queue, state, payload::text, payload_bytes, headers::text, key, priority, group_key,
               attempts, max_attempts, enqueued_at, null, null, first_claimed_at, last_claimed_at, null,
               finished_at, case when state = 'dead' then finished_at end, worker, last_error, null
          from penstock.history
         where id = %(id)s::bigint) as found
 order by turn, finished_at desc
 limit 1
