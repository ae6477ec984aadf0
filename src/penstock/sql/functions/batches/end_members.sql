-- Members of batches end. Every function that ends messages of a queue with has_members calls this in the same
-- transaction. An id that is not a member costs one look at an index. A member counts once, for any number of calls.
-- Locks: the rows of the members. Uses batch_member_pkey.
create or replace function penstock._end_members(ids bigint[], state text) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
begin
  with gone as (
    delete from penstock.batch_member m where m.id = any (ids) returning m.batch_id, m.is_dead)
  insert into penstock.batch_change (batch_id, done, dead, expired, cancelled)
  select g.batch_id, case when _end_members.state = 'done' then count(*) else 0 end,
    case when _end_members.state = 'dead' then count(*) else 0 end,
    case when _end_members.state = 'expired' then count(*) else 0 end,
    case when _end_members.state in ('cancelled', 'superseded') then count(*) else 0 end
  from gone g where not g.is_dead group by g.batch_id;
end $$;

-- A member becomes a dead letter. It has ended, but a redrive brings it back. Locks: the row of the member. Uses
-- batch_member_pkey.
create or replace function penstock._bury_member(id bigint) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  with buried as (
    update penstock.batch_member m set is_dead = true where m.id = _bury_member.id and not m.is_dead
    returning m.batch_id)
  insert into penstock.batch_change (batch_id, dead) select b.batch_id, 1 from buried b;
end $$;

-- A dead letter is redriven. Its batch waits for it again, unless the batch has finished. Locks: the row of the member.
-- Uses batch_member_pkey.
create or replace function penstock._revive_member(id bigint) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  with revived as (
    update penstock.batch_member m set is_dead = false where m.id = _revive_member.id and m.is_dead
    returning m.batch_id)
  insert into penstock.batch_change (batch_id, dead) select r.batch_id, -1 from revived r;
end $$;

-- The next step of a chain takes the place of a member that is done. Called after the member has ended. Locks: the new
-- rows, and the row of the queue if this is its first member. Uses queue_name_key.
create or replace function penstock._replace_member(batch_id bigint, new_id bigint, queue text) returns void
language plpgsql as $$
#variable_conflict use_column
begin
  update penstock.queue q set has_members = true where q.name = _replace_member.queue and not q.has_members;
  insert into penstock.batch_member (id, batch_id) values (new_id, _replace_member.batch_id);
  insert into penstock.batch_change (batch_id, done) values (_replace_member.batch_id, -1);
end $$;
