-- Makes a queue and its registers. True if it was made, false if it was there and exist_ok.
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
  insert into penstock.queue (id, name, floors, sweep_register, rescan_register) overriding system value
  values (new_id, create_queue.name, array[penstock._register('floor_' || new_id || '_0')],
          penstock._register('sweep_' || new_id), penstock._register('rescan_' || new_id));
  if settings <> '{}' then
    perform penstock.set_queue(create_queue.name, settings);
  end if;
  return true;
end $$;

create or replace function penstock._register(register text) returns regclass language plpgsql as $$
begin
  execute format('create sequence penstock.%I minvalue 0', register);
  perform setval(format('penstock.%I', register)::regclass, 0);
  return format('penstock.%I', register)::regclass;
end $$;

-- The first message of a priority, or with a group or a time to live, changes what claims have to look for: once in
-- the life of a queue, in the enqueuer's transaction. Another such first message waits for its commit.
create or replace function penstock._widen(queue_id integer, new_priority smallint, stays_plain boolean) returns void language plpgsql as $$
#variable_conflict use_column
declare
  q penstock.queue;
begin
  select * into q from penstock.queue where id = _widen.queue_id for no key update;
  if q.plain and not stays_plain then
    update penstock.queue set plain = false where id = q.id;
  end if;
  if new_priority <> all (q.priorities) then
    update penstock.queue u
    set (priorities, floors) = (
      select array_agg(priority order by priority desc), array_agg(floor order by priority desc)
      from (select * from unnest(q.priorities, q.floors) lane (priority, floor)
            union all
            select new_priority, penstock._register(format('floor_%s_%s', q.id, replace(new_priority::text, '-', 'm')))) lanes)
    where u.id = q.id;
  end if;
end $$;
