-- Creates a queue and its registers. True if it was created, false if it exists and exist_ok is true.
create or replace function penstock.create_queue(name text, settings jsonb default '{}', exist_ok boolean default false)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  new_id integer;
begin
  perform penstock._check_name(create_queue.name);
  -- Two callers at once with one name: the second waits here, and then finds the first one's row.
  perform pg_advisory_xact_lock(hashtextextended('penstock queue ' || create_queue.name, 0));
  if exists (select from penstock.queue q where q.name = create_queue.name) then
    if exist_ok then
      return false;
    end if;
    perform penstock._fail('PS002', format('queue %L exists already', create_queue.name), jsonb_build_object('queue', create_queue.name),
      'Change it with penstock.set_queue, or create it with exist_ok => true.');
  end if;
  new_id := nextval(pg_get_serial_sequence('penstock.queue', 'id'));
  insert into penstock.queue (id, name, floors, sweep_register, rescan_register, generation_register, mark_register, settled_register,
    lanes_register, first_row_register, first_row_xid_register) overriding system value
  values (new_id, create_queue.name, array[penstock._register('floor_' || new_id || '_0')], penstock._register('sweep_' || new_id),
          penstock._register('rescan_' || new_id), penstock._register('generation_' || new_id), penstock._register('mark_' || new_id),
          penstock._register('settled_' || new_id), penstock._register('lanes_' || new_id, 512),
          penstock._register('first_row_' || new_id), penstock._register('first_row_xid_' || new_id));
  if settings <> '{}' then
    perform penstock.set_queue(create_queue.name, settings);
  end if;
  return true;
end $$;

drop function if exists penstock._register(text);
create or replace function penstock._register(register text, value bigint default 0) returns regclass language plpgsql as $$
begin
  execute format('create sequence penstock.%I minvalue 0', register);
  perform setval(format('penstock.%I', register)::regclass, value);
  return format('penstock.%I', register)::regclass;
end $$;

-- The first message of a priority, or with a group or a time to live, changes what claims have to look for. The enqueuer says
-- so in a register, at once and for good, and holds no lock: claims look there. The queue's row follows at the commit
-- of a claim: see _adopt_lanes. Bit 9 is priority 0, bit 18 priority 9, bit 19 groups and times to live.
create or replace function penstock._lane_bits(priority integer, stays_plain boolean) returns integer language sql immutable as $$
  select 1 << (priority + 9) | case when stays_plain then 0 else 1 << 19 end
$$;

create or replace function penstock._widen(q penstock.queue, bits integer) returns void language plpgsql as $$
begin
  if pg_sequence_last_value(q.lanes_register) & bits <> bits then
    -- In one expression, which cannot be interrupted half way.
    perform pg_advisory_lock(1885695608, q.id), setval(q.lanes_register, pg_sequence_last_value(q.lanes_register) | bits),
      pg_advisory_unlock(1885695608, q.id);
  end if;
end $$;

-- The queue with the lanes that its register knows of. One that its row does not have yet has no floor: claims look from
-- the beginning.
create or replace function penstock._with_lanes(q penstock.queue) returns penstock.queue language plpgsql as $$
declare
  bits constant integer := pg_sequence_last_value(q.lanes_register);
begin
  if bits <> q.lane_bits then
    select array_agg(p order by p desc), array_agg(q.floors[array_position(q.priorities, p::smallint)] order by p desc)
    into q.priorities, q.floors from generate_series(-9, 9) p where bits >> (p + 9) & 1 = 1;
    q.plain := bits >> 19 = 0;
  end if;
  return q;
end $$;

-- Writes new lanes into the row of their queue, and makes their floors. Skips a queue whose row somebody is changing.
create or replace function penstock._adopt_lanes() returns void language plpgsql as $$
declare
  q penstock.queue;
begin
  for q in select * from penstock.queue t where t.lane_bits <> pg_sequence_last_value(t.lanes_register) for no key update skip locked loop
    q := penstock._with_lanes(q);
    for i in 1 .. cardinality(q.priorities) loop
      q.floors[i] := coalesce(q.floors[i], penstock._register(format('floor_%s_%s', q.id, replace(q.priorities[i]::text, '-', 'm'))));
    end loop;
    update penstock.queue u
    set priorities = q.priorities, floors = q.floors, plain = q.plain,
        lane_bits = (select sum(1 << (p + 9)) from unnest(q.priorities) p) + case when q.plain then 0 else 1 << 19 end
    where u.id = q.id;
  end loop;
end $$;
