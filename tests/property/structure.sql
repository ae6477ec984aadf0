-- Faults that must never exist: one row for each. Run as it is, on what is committed.
with group_token as (
  select t.queue_id, t.group_key from penstock.scheduled t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_0 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_1 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_2 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_3 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_4 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_5 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_6 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_7 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.ready_8 t where t.group_key is not null
  union all select t.queue_id, t.group_key from penstock.leased_0 t where t.group_key is not null and t.dead_at is null
  union all select t.queue_id, t.group_key from penstock.leased_1 t where t.group_key is not null and t.dead_at is null
  union all select t.queue_id, t.group_key from penstock.leased_2 t where t.group_key is not null and t.dead_at is null
  union all select t.queue_id, t.group_key from penstock.leased_3 t where t.group_key is not null and t.dead_at is null
  union all select t.queue_id, t.group_key from penstock.leased_4 t where t.group_key is not null and t.dead_at is null
  union all select t.queue_id, t.group_key from penstock.leased_5 t where t.group_key is not null and t.dead_at is null
  union all select t.queue_id, t.group_key from penstock.leased_6 t where t.group_key is not null and t.dead_at is null
  union all select t.queue_id, t.group_key from penstock.leased_7 t where t.group_key is not null and t.dead_at is null
  union all select t.queue_id, t.group_key from penstock.leased_8 t where t.group_key is not null and t.dead_at is null
), message as (
  select t.id, t.queue_id, t.key, t.body_slot, true as waiting from penstock.scheduled t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.grouped t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.dead t
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_0 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_1 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_2 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_3 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_4 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_5 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_6 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_7 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, true from penstock.ready_8 t where t.group_key is null
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_0 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_0 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_1 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_1 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_2 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_2 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_3 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_3 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_4 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_4 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_5 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_5 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_6 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_6 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_7 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_7 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.leased_8 t
  union all select t.id, t.queue_id, t.key, t.body_slot, false from penstock.held_8 t
), body as (
  select 0 as slot, t.id from penstock.body_0 t
  union all select 1, t.id from penstock.body_1 t
  union all select 2, t.id from penstock.body_2 t
  union all select 3, t.id from penstock.body_3 t
  union all select 4, t.id from penstock.body_4 t
  union all select 5, t.id from penstock.body_5 t
  union all select 6, t.id from penstock.body_6 t
  union all select 7, t.id from penstock.body_7 t
  union all select 8, t.id from penstock.body_8 t
)
select 'group without exactly one group token' as fault, g.group_key as what
from penstock.message_group g where (select count(*) from group_token t where t.queue_id = g.queue_id and t.group_key = g.group_key) <> 1
union all
select 'group token without its group', t.group_key
from group_token t where not exists (select from penstock.message_group g where g.queue_id = t.queue_id and g.group_key = t.group_key)
union all
select 'message whose group does not exist', t.group_key
from penstock.grouped t where not exists (select from penstock.message_group g where g.queue_id = t.queue_id and g.group_key = t.group_key)
union all
select 'body without its message', b.id::text
from body b where not exists (select from message m where m.id = b.id and (b.slot = m.body_slot or b.slot = 0 and m.body_slot is not null))
union all
select 'message without exactly one body', m.id::text
from message m where m.body_slot is not null and (select count(*) from body b where b.id = m.id) <> 1
union all
select 'several waiting messages with one key', m.key
from message m where m.waiting and m.key is not null group by m.queue_id, m.key having count(*) > 1
