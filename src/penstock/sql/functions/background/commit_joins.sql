-- At commit: messages have joined groups. They get their positions here, so that a group is in the order of commits.
-- All transactions lock groups in the same order, and wait for nothing else from here on, so no two of them can
-- deadlock. below: their positions until now are negative, and this is the first of them.
-- Locks until commit: the rows of the groups. Uses grouped_joining and grouped_order.
create or replace function penstock._commit_joins(below bigint) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  joined record;
  begun  boolean;
  first  bigint;
begin
  for joined in select distinct g.queue_id, g.group_key from penstock.grouped g where g.position < 0
    and g.position <= below order by 1, 2 loop
    begun := penstock._lock_group(joined.queue_id, joined.group_key);
    with placed as (
      select n.place, nextval('penstock.position') as position from (
        select g.ctid as place from penstock.grouped g
        where g.queue_id = joined.queue_id and g.group_key = joined.group_key and g.position <= below
        order by g.position desc offset 0) n),
    moved as (
      update penstock.grouped g set position = p.position from placed p where g.ctid = p.place returning g.position)
    select min(m.position) into first from moved m;
    if begun then
      perform penstock._issue_group_token(joined.queue_id, joined.group_key, first - 1, at_commit => true);
    end if;
  end loop;
end $$;
