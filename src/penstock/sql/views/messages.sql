-- Every unfinished message with its current state. Due messages and messages with expired leases are ready.
--
-- The branches of the union have no conditions and no subqueries, so that the planner treats them as one list of
-- tables. Planning a count of this view takes 1 ms, instead of 4 ms with each branch planned as a query. The grant of a
-- message that is leased in place is looked up outside the union, and only if the query uses its columns. A query for
-- one queue uses lane_N_order, scheduled_queue, grouped_order and dead_queue, and scans leased_N.
create or replace view penstock.messages as
with grant_of as not materialized (
  select null::smallint as slot, null::bigint as hold, null::timestamptz as lease_until,
    null::timestamptz as claimed_at, null::text as worker where false
  --: for each segment
  union all select {slot}::smallint, g.hold, g.lease_until, g.claimed_at, g.worker from penstock.grant_{slot} g
  --: end
)
select m.id, q.name || case when m.dead_at is null then '' else '.dlq' end as queue,
       case when m.kind = 'dead' then 'dead'
            when m.kind in ('waiting', 'waiting in a group') then case when m.visible_at > clock_timestamp()
              then 'scheduled' else 'ready' end
            when m.kind = 'lane' then case when m.hold = 0 or {hold.until(m.hold)} <= clock_timestamp() then 'ready'
              else 'leased' end
            when m.visible_at > clock_timestamp() then 'leased' when m.dead_at is not null then 'dead' else 'ready'
              end as state,
       case when m.body_slot is null then m.payload else penstock._body_json(m.body_slot, m.id) end as payload,
       case when m.body_slot is null then m.payload_bytes else penstock._body_bytes(m.body_slot, m.id)
         end as payload_bytes,
       m.headers, m.key, m.priority::integer, m.group_key,
       case when m.hold = 0 then m.attempt::integer else least(m.attempt + 1, 32767) end as attempt,
         m.max_attempts::integer, m.enqueued_at,
       case when m.hold = 0 then m.visible_at else {hold.until(m.hold)} end as visible_at, m.expires_at,
       case when m.hold = 0 or m.first_claimed_at is not null then m.first_claimed_at
            else (select g.claimed_at from grant_of g where g.slot = m.slot and g.hold = m.hold
              and g.lease_until = {hold.until(m.hold)} limit 1)
            end as first_claimed_at,
       case when m.hold = 0 then m.claimed_at
            else (select g.claimed_at from grant_of g where g.slot = m.slot and g.hold = m.hold
              and g.lease_until = {hold.until(m.hold)} limit 1)
            end as claimed_at,
       case when m.kind = 'leased' then m.visible_at when m.hold <> 0 then {hold.until(m.hold)} end as lease_until,
       case when m.hold = 0 then m.worker
            else (select g.worker from grant_of g where g.slot = m.slot and g.hold = m.hold
              and g.lease_until = {hold.until(m.hold)} limit 1)
            end as worker,
       m.last_error, m.dead_at, case when m.dead_at is not null then q.name end as original_queue
from (
  select 'waiting' as kind, null::smallint as slot, 0::bigint as hold, due_at as visible_at, {envelope}
    from penstock.scheduled
  union all
  select 'waiting in a group', null::smallint, 0::bigint, visible_at, {envelope} from penstock.grouped
  union all
  select 'dead', null::smallint, 0::bigint, dead_at, {envelope} from penstock.dead
  --: for each segment
  union all
  select 'lane', {slot}::smallint, hold, enqueued_at, {envelope} from penstock.lane_{slot}
  union all
  select 'leased', {slot}::smallint, 0::bigint, lease_until, {envelope} from penstock.leased_{slot}
  --: end
) m join penstock.queue q on q.id = m.queue_id
-- Other rows with a group are group tokens.
where m.group_key is null or m.kind in ('waiting in a group', 'dead', 'leased');

-- Workers that hold leases, by queue. Scans the leases, and the lanes for messages that are leased in place, which no
-- index contains. Reading them from penstock.messages takes 2.4 times as long with a million ready messages, because it
-- computes the state of each. Uses grant_N_until.
create or replace view penstock.workers as
select l.worker, q.name as queue, count(*) as leased, min(l.claimed_at) as oldest_claimed_at,
  min(l.lease_until) as next_lease_until
from (
  select null::text as worker, null::integer as queue_id, null::timestamptz as claimed_at,
    null::timestamptz as lease_until where false
  --: for each segment
  union all
  select t.worker, t.queue_id, t.claimed_at, t.lease_until from penstock.leased_{slot} t
  where t.lease_until > clock_timestamp()
  union all
  select h.worker, h.queue_id, h.claimed_at, h.lease_until from penstock.held_{slot} h
  where h.lease_until > clock_timestamp()
  --: end
) l join penstock.queue q on q.id = l.queue_id
group by 1, 2;

-- Dead letters that are not leased. Uses dead_pkey and dead_queue.
create or replace view penstock.dead_letters as
select d.id, q.name as queue, case when d.body_slot is null then d.payload else penstock._body_json(d.body_slot, d.id)
       end as payload, case when d.body_slot is null then d.payload_bytes else penstock._body_bytes(d.body_slot, d.id)
       end as payload_bytes, d.headers, d.key, d.priority::integer, d.group_key, d.attempt::integer as attempts,
       d.max_attempts::integer, d.enqueued_at, d.first_claimed_at, d.last_error, d.dead_at
from penstock.dead d join penstock.queue q on q.id = d.queue_id;
