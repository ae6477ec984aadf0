-- Which database this is, for offsets that must not be used on another: transaction ids are the server's own.
select (select system_identifier from pg_control_system())::text || '/'
         || (select oid from pg_database where datname = current_database()),
       pg_is_in_recovery(), penstock.schema_version(), penstock.oldest_client()
