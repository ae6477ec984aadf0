-- The facts about the server that `penstock doctor` checks: its version, the current user, and the settings that decide
-- whether a queue on it is safe and fast. No locks. Reads no table of Penstock.
select current_setting('server_version_num')::integer as version_number,
       current_setting('server_version') as version,
       current_database()::text as database,
       current_user::text as username,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all_sessions,
       pg_is_in_recovery() as read_only,
       (select jsonb_object_agg(setting.name, jsonb_build_object('setting', setting.setting, 'unit', setting.unit))
          from pg_settings as setting
         where setting.name in (
           'autovacuum', 'fsync', 'full_page_writes', 'idle_in_transaction_session_timeout',
           'max_connections', 'max_locks_per_transaction', 'max_prepared_transactions',
           'shared_buffers', 'synchronous_commit', 'track_activities')) as settings
