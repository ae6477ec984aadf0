-- Every message that is not finished, with its state as of now: what is due, and what ran out, counts as ready.
select penstock._unroll($unroll$
create or replace view penstock.messages as
select m.id, q.name || case when m.dead_at is null then '' else '.dlq' end as queue, m.state,
       case when m.body_slot is null then m.payload else penstock._body_json(m.body_slot, m.id) end as payload,
       case when m.body_slot is null then m.payload_bytes else penstock._body_bytes(m.body_slot, m.id) end as payload_bytes,
       m.headers, m.key, m.priority::integer, m.group_key, m.attempt::integer, m.max_attempts::integer, m.enqueued_at, m.visible_at, m.expires_at,
       m.first_claimed_at, m.claimed_at, m.lease_until, m.worker, m.last_error, m.dead_at, case when m.dead_at is not null then q.name end as original_queue
from (
  select case when s.due_at > clock_timestamp() then 'scheduled' else 'ready' end as state, s.due_at as visible_at, null::timestamptz as lease_until,
    s.id, s.enqueued_at, s.expires_at, s.first_claimed_at, s.claimed_at, s.dead_at, s.queue_id, s.priority, s.attempt, s.max_attempts, s.body_slot, s.worker,
    s.key, s.group_key, s.headers, s.payload, s.payload_bytes, s.last_error
  from penstock.scheduled s where s.group_key is null
  union all
  select case when g.visible_at > clock_timestamp() then 'scheduled' else 'ready' end, g.visible_at, null,
    g.id, g.enqueued_at, g.expires_at, g.first_claimed_at, g.claimed_at, g.dead_at, g.queue_id, g.priority, g.attempt, g.max_attempts, g.body_slot, g.worker,
    g.key, g.group_key, g.headers, g.payload, g.payload_bytes, g.last_error
  from penstock.grouped g
  union all
  select 'dead', d.dead_at, null,
    d.id, d.enqueued_at, d.expires_at, d.first_claimed_at, d.claimed_at, d.dead_at, d.queue_id, d.priority, d.attempt, d.max_attempts, d.body_slot, d.worker,
    d.key, d.group_key, d.headers, d.payload, d.payload_bytes, d.last_error
  from penstock.dead d
  --[
  union all
  select 'ready', r.enqueued_at, null,
    r.id, r.enqueued_at, r.expires_at, r.first_claimed_at, r.claimed_at, r.dead_at, r.queue_id, r.priority, r.attempt, r.max_attempts, r.body_slot, r.worker,
    r.key, r.group_key, r.headers, r.payload, r.payload_bytes, r.last_error
  from penstock.ready_{slot} r where r.group_key is null
  union all
  select case when l.lease_until > clock_timestamp() then 'leased' when l.dead_at is not null then 'dead' else 'ready' end, l.lease_until, l.lease_until,
    l.id, l.enqueued_at, l.expires_at, l.first_claimed_at, l.claimed_at, l.dead_at, l.queue_id, l.priority, l.attempt, l.max_attempts, l.body_slot, l.worker,
    l.key, l.group_key, l.headers, l.payload, l.payload_bytes, l.last_error
  from (select {leased} from penstock.leased_{slot} union all select {leased} from penstock.held_{slot}) l
  --]
) m join penstock.queue q on q.id = m.queue_id;

create or replace view penstock.workers as
select l.worker, q.name as queue, count(*) as leased, min(l.claimed_at) as oldest_claimed_at, min(l.lease_until) as next_lease_until
from (
  select null::text as worker, 0 as queue_id, null::timestamptz as claimed_at, null::timestamptz as lease_until where false
  --[
  union all select l.worker, l.queue_id, l.claimed_at, l.lease_until from penstock.leased_{slot} l
  union all select h.worker, h.queue_id, h.claimed_at, h.lease_until from penstock.held_{slot} h
  --]
) l join penstock.queue q on q.id = l.queue_id
where l.lease_until > clock_timestamp()
group by l.worker, q.name;
$unroll$);

create or replace view penstock.dead_letters as
select d.id, q.name as queue, case when d.body_slot is null then d.payload else penstock._body_json(d.body_slot, d.id) end as payload,
       case when d.body_slot is null then d.payload_bytes else penstock._body_bytes(d.body_slot, d.id) end as payload_bytes,
       d.headers, d.key, d.priority::integer, d.group_key, d.attempt::integer as attempts, d.max_attempts::integer, d.enqueued_at, d.first_claimed_at, d.last_error, d.dead_at
from penstock.dead d join penstock.queue q on q.id = d.queue_id;
