-- The state of a service, also where it has no schema of Penstock. Reads the catalog.
select current_setting('server_version'), current_user::text, current_database()::text, clock_timestamp(),
       to_regprocedure('penstock.schema_version()') is not null,
       pg_is_in_recovery(),
       array(select r.rolname::text from pg_roles r
             where r.rolname in ('penstock_producer', 'penstock_consumer', 'penstock_operator')
               and pg_has_role(r.oid, 'member') order by r.rolname),
       coalesce((select pg_has_role(n.nspowner, 'usage') from pg_namespace n where n.nspname = 'penstock'),
                has_database_privilege(current_database(), 'create'))
