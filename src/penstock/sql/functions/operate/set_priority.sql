-- Changes the priority of waiting messages, which then come last among those of their new priority. Messages that are
-- not waiting, or have the priority already, are skipped. Returns how many were changed. Locks: the rows. Indexes: as
-- cancel, and as enqueue.
create or replace function penstock.set_priority(ids bigint[], priority integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q      penstock.queue;
  taken  record;
  n      bigint := 0;
  wanted bigint;
begin
  if cardinality(ids) > {limit.messages} or ids is null then
    perform penstock._fail_value('ids', cardinality(ids)::text, 'up to {limit.messages} ids');
  elsif set_priority.priority not between -9 and 9 or set_priority.priority is null then
    perform penstock._fail_value('priority', set_priority.priority::text, '-9 to 9');
  end if;
  for wanted in select distinct i from unnest(ids) i order by i loop
    taken := penstock._take_waiting(wanted, false, null, set_priority.priority);
    continue when taken.state is null;
    if q.id is distinct from (taken.m).queue_id then
      select * into q from penstock.queue t where t.id = (taken.m).queue_id;
    end if;
    taken.m.priority := set_priority.priority;
    perform penstock._place_again(q, taken.m, taken.due_at, false);
    n := n + 1;
    if not penstock._in_block() then
      perform penstock._wake_waiters(q);
    end if;
  end loop;
  return n;
end $$;
