-- Delivery at commit. A claim begins at the floor of its lane, so the floor must never pass a message whose transaction
-- has not committed yet. Generations tell a sweep when it may raise the floor: see functions/21_sweep.sql.
drop sequence penstock.mark_0, penstock.mark_1, penstock.mark_2;

alter table penstock.queue
  add column generation_register regclass,   -- the generation that enqueues join, and the ones that are not finished
  add column mark_register       regclass,   -- the last position when that generation began
  add column settled_register    regclass,   -- no transaction that has taken a position up to this one is still open
  add column lanes_register      regclass,   -- one bit for each priority in use, and one for groups and times to live
  add column lane_bits           integer not null default 512;   -- the same, as far as priorities, floors and plain know of it

do $registers$
declare
  q        penstock.queue;
  register text;
begin
  for q in select * from penstock.queue loop
    foreach register in array array['generation', 'mark', 'settled', 'lanes'] loop
      execute format('create sequence penstock.%I minvalue 0', register || '_' || q.id);
      perform setval(format('penstock.%I', register || '_' || q.id)::regclass, 0);
    end loop;
    update penstock.queue u
    set generation_register = format('penstock.%I', 'generation_' || q.id)::regclass, mark_register = format('penstock.%I', 'mark_' || q.id)::regclass,
        settled_register = format('penstock.%I', 'settled_' || q.id)::regclass, lanes_register = format('penstock.%I', 'lanes_' || q.id)::regclass,
        lane_bits = (select sum(1 << (p + 9)) from unnest(q.priorities) p) + case when q.plain then 0 else 1 << 19 end
    where u.id = q.id;
    perform setval(u.lanes_register, u.lane_bits) from penstock.queue u where u.id = q.id;
  end loop;
end $registers$;

alter table penstock.queue
  alter column generation_register set not null, alter column mark_register set not null,
  alter column settled_register set not null, alter column lanes_register set not null;

-- How many generations have begun, and how many of these beginnings are over, in all queues: an enqueue that sees both
-- numbers equal, and unchanged at its end, knows that it has joined the right generation.
create sequence penstock.flips_begun minvalue 0;
create sequence penstock.flips_over minvalue 0;
select setval('penstock.flips_begun', 0), setval('penstock.flips_over', 0);

-- How often a rescan has found a message below a floor. It stays at 0 unless registers were restored or damaged.
create sequence penstock.rescans_found minvalue 0;
select setval('penstock.rescans_found', 0);

-- A message joins its group when its transaction commits. Until then its position is negative.
create index grouped_joining on penstock.grouped (position) where position < 0;

-- A row in bell_N is work for the commit of its transaction: see functions/24_at_commit.sql.
do $bells$
begin
  for slot in 0..8 loop
    execute format('alter table penstock.bell_%s add column kind text not null default ''upkeep'', add column queue_id integer, add column priority smallint,
                      add column position bigint, add column group_key text', slot);
  end loop;
end $bells$;

-- These have other parameters.
drop function if exists penstock._widen(integer, smallint, boolean);
drop function if exists penstock._rotated(integer, bigint);
drop function if exists penstock._rotated_many(integer);
drop function if exists penstock._rescan(penstock.queue);
drop function if exists penstock._rotate();
drop function if exists penstock._issue_ticket(integer, text, bigint, boolean);

-- The trigger calls another function now.
do $triggers$
begin
  for slot in 0..8 loop
    execute format('drop trigger if exists at_commit on penstock.bell_%s', slot);
  end loop;
end $triggers$;
