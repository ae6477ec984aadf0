-- Ends a session of this database, unless it is a connection of Penstock or has started another transaction. True if
-- PostgreSQL was asked to end it. No locks. Takes pg_signal_backend, or the role of the session.
select coalesce(bool_or(pg_terminate_backend(activity.pid)), false)
  from pg_stat_activity as activity
 where activity.pid = %(pid)s::integer and activity.pid <> pg_backend_pid()
   and activity.datname = current_database() and activity.backend_type = 'client backend'
   and not activity.application_name ^@ 'penstock'
   and extract(epoch from activity.xact_start)::text = %(begun)s::text
