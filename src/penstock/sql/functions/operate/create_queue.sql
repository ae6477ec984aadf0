-- Creates a queue and its registers. Returns true if it was created, false if it exists already and exist_ok is true.
-- Locks: an advisory lock on the name until commit, so that a second caller waits and then finds the queue. Uses
-- queue_name_key.
create or replace function penstock.create_queue(name text, settings jsonb default '{}', exist_ok boolean default false)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  new_id integer;
begin
  perform penstock._check_name(create_queue.name);
  -- If two callers create the same name, the second waits here and then finds the row of the first.
  perform pg_advisory_xact_lock(hashtextextended('penstock queue ' || create_queue.name, 0));
  if exists (select from penstock.queue q where q.name = create_queue.name) then
    if exist_ok then
      return false;
    end if;
    perform penstock._fail_queue_exists(create_queue.name, '', jsonb_build_object('queue', create_queue.name),
      'Change it with penstock.set_queue, or create it with exist_ok => true.');
  end if;
  new_id := nextval(pg_get_serial_sequence('penstock.queue', 'id'));
  insert into penstock.queue (id, name, floors, sweep_register, rescan_register, generation_register, mark_register,
    settled_register, lanes_register, first_row_register, first_row_xid_register) overriding system value
  values (new_id, create_queue.name, array[penstock._unlogged_register('floor_' || new_id || '_0')],
          penstock._unlogged_register('sweep_' || new_id), penstock._unlogged_register('rescan_' || new_id),
          penstock._unlogged_register('generation_' || new_id), penstock._unlogged_register('mark_' || new_id),
          penstock._unlogged_register('settled_' || new_id), penstock._register('lanes_' || new_id, {lanes.priority_0}),
          penstock._unlogged_register('first_row_' || new_id), penstock._unlogged_register('first_row_xid_' || new_id));
  if settings <> '{}' then
    perform penstock.set_queue(create_queue.name, settings);
  end if;
  return true;
end $$;
