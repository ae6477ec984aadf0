-- The three roles and their grants: see functions/common/grants.sql. Runs last, whenever functions or views were
-- replaced, and whenever a grant is missing.
--
-- Roles belong to the whole server, not to the database. They are created if the migrating user may create roles, and
-- get their grants if they exist. Every function that they may call sets its search_path. Functions that read tables
-- are SECURITY DEFINER.
do $roles$
declare
  role_name text;
  g         record;
begin
  foreach role_name in array penstock._roles() loop
    if to_regrole(role_name) is null then
      begin
        execute format('create role %I nologin', role_name);
      exception
        when insufficient_privilege then
          raise log 'penstock: user % lacks the privilege to create role %', current_user, role_name;
        when duplicate_object or unique_violation then
          null;   -- another database of the cluster was being migrated
      end;
    end if;
  end loop;

  revoke all on all functions in schema penstock, mdb_queue from public;
  for g in select * from penstock._grants() t where to_regrole(t.role_name) is not null loop
    execute format('grant %s on %s %s to %I', g.privilege, g.kind, g.object, g.role_name);
  end loop;
end $roles$;
