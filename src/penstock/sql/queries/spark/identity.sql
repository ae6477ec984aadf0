-- The identity of this database. Offsets are valid in one database only, because each server has its own transaction
-- ids.
select (select system_identifier from pg_control_system())::text || '/'
         || (select oid from pg_database where datname = current_database()),
       pg_is_in_recovery(), penstock.schema_version(), penstock.oldest_client()
