-- Internal queues. A queue whose name begins with "penstock." carries Penstock's own work: a message in penstock.tasks makes a
-- server connect to a service and change it. Only admins may use such a queue.
--
-- Internal queues are neither plain_in nor plain_out, so that the short ways of enqueue and claim never find them, and pay
-- nothing for the check. All other ways ask _check_internal.

-- Is the caller an admin: may it execute what only penstock_operator may? The caller is the role of SET ROLE, or else the
-- user of the session: current_user is the owner here, in functions that run with the rights of the owner. The setting
-- "role" is one that a caller cannot forge: PostgreSQL takes only roles that the session's user is a member of.
create or replace function penstock._is_admin() returns boolean language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return has_function_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), 'penstock.set_queue(text, jsonb)', 'execute');
end $$;

create or replace function penstock._check_internal(queue text) returns void language plpgsql as $$
begin
  if queue ^@ 'penstock.' and not penstock._is_admin() then
    perform penstock._fail('42501', format('queue %L is internal to Penstock: permission denied', left(queue, 200)), jsonb_build_object('queue', left(queue, 200)),
      'Use a queue whose name does not begin with "penstock.", or log in as a member of penstock_operator.');
  end if;
end $$;
