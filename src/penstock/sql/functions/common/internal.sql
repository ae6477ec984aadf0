-- Internal queues. A queue whose name begins with "penstock." carries work of Penstock itself: a message in
-- penstock.tasks makes a server connect to a service and change it. Only admins may use such a queue.
--
-- Internal queues are neither plain_in nor plain_out, so the short paths of enqueue and claim never find them and pay
-- nothing for the check. All other paths call _check_internal.
--
-- _is_admin: whether the caller may execute a function that only penstock_operator may execute. The caller is the role
-- of SET ROLE, or else the user of the session: current_user is the owner in functions that run with the rights of
-- their owner. A caller cannot forge the setting "role", because PostgreSQL accepts only roles that the user of the
-- session is a member of.
-- Locks: none. Indexes: none.
create or replace function penstock._is_admin() returns boolean language plpgsql stable security definer
set search_path = pg_catalog, pg_temp as $$
begin
  return has_function_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user),
    'penstock.set_queue(text, jsonb)', 'execute');
end $$;

-- Raises an error if the queue is internal and the caller is not an admin.
create or replace function penstock._check_internal(queue text) returns void language plpgsql as $$
begin
  if queue ^@ 'penstock.' and not penstock._is_admin() then
    perform penstock._fail('42501', format('permission denied for internal queue %L', left(queue, 200)),
      jsonb_build_object('queue', left(queue, 200)),
      'Use a queue whose name does not begin with "penstock.", or log in as a member of penstock_operator.');
  end if;
end $$;
