-- Privileges. penstock_producer enqueues, penstock_consumer claims and settles, penstock_operator does everything
-- except migrate. Other roles have no privileges. Only the operator may call a new function until it is listed here.
--
-- _grants returns every grant that should exist: grant <privilege> on <kind> <object> to <role_name>.
-- roles/10_roles.sql makes these grants. Locks: none. Reads the catalog.
create or replace function penstock._grants() returns table (role_name text, kind text, object text, privilege text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  producers constant text[] := array['enqueue', 'enqueue_many', 'spark_stage', 'spark_publish', 'spark_unstage',
    'spark_enqueue', 'spark_begin', 'spark_put', 'spark_complete', 'schema_version', 'oldest_client', 'wake_channel',
    'get_results', 'get_outcome', 'enqueue_all', 'create_batch', 'add_to_batch', 'seal_batch', 'get_batch',
    'get_progress'];
  consumers constant text[] := array['claim', 'claim_within', 'ack', 'ack_many', 'nack', 'nack_many', 'reject',
                                     'reject_many', 'snooze',
                                     'snooze_many', 'extend', 'extend_many', 'stats', 'maintain', 'attend',
                                     'wake_channel', 'beat', 'beat_v2', 'retire', 'fire_schedules', 'schema_version',
                                     'oldest_client',
                                     'spark_attach', 'spark_plan', 'spark_ready', 'spark_claim', 'spark_ack',
                                       'spark_seen', 'spark_unsettled',
                                     'spark_settle', 'spark_release', 'complete_many', 'complete_many_v2',
                                     'get_results', 'get_outcome', 'drop_expired_results', 'finish_batches',
                                     'continue_cancels', 'get_batch', 'report_progress', 'get_progress'];
begin
  return query
  select r, 'schema', s, 'usage' from unnest(penstock._roles()) r cross join unnest(array['penstock', 'mdb_queue']) s;
  return query
  select r, 'function', p.oid::regprocedure::text, 'execute' from pg_proc p cross join unnest(penstock._roles()) r
  where p.pronamespace = 'penstock'::regnamespace and p.proname !~ '^_'
    and (r = 'penstock_operator' or r = 'penstock_producer' and p.proname = any (producers) or r = 'penstock_consumer'
      and p.proname = any (consumers));
  return query
  select 'penstock_operator', 'table', c.oid::regclass::text, 'select' from pg_class c
  where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'v' and c.relname !~ '^(ready|held)_[0-9]$';
  return query
  select * from (values
    ('penstock_producer', 'table', 'penstock.queues', 'select'),
    ('penstock_consumer', 'table', 'penstock.queues', 'select'),
    -- Functions that views call, and that spark_enqueue calls with the rights of its caller.
    ('penstock_producer', 'function', 'penstock._is_admin()', 'execute'),
    ('penstock_consumer', 'function', 'penstock._is_admin()', 'execute'),
    ('penstock_operator', 'function', 'penstock._is_admin()', 'execute'),
    ('penstock_operator', 'function', 'penstock._body_json(smallint,bigint)', 'execute'),
    ('penstock_operator', 'function', 'penstock._body_bytes(smallint,bigint)', 'execute'),
    ('penstock_producer', 'function', 'penstock._spark_hand_on(text,boolean,boolean,boolean,integer,text,text)',
      'execute'),
    ('penstock_operator', 'function', 'penstock._spark_hand_on(text,boolean,boolean,boolean,integer,text,text)',
      'execute'),
    ('penstock_producer', 'table', 'mdb_queue.queues', 'select'),
    ('penstock_consumer', 'table', 'mdb_queue.queues', 'select'),
    ('penstock_producer', 'table', 'mdb_queue.messages', 'insert'),
    ('penstock_producer', 'table', 'mdb_queue.messages', 'select (id)'),      -- for RETURNING id; reads need _rows
    ('penstock_consumer', 'table', 'mdb_queue.dead_messages', 'select')) g;
  return query
  select 'penstock_consumer', 'table', 'mdb_queue.messages', p from unnest(array['select', 'update', 'delete']) p;
  return query
  select 'penstock_operator', 'table', v, p from unnest(array['mdb_queue.queues', 'mdb_queue.messages',
    'mdb_queue.dead_messages']) v
  cross join unnest(array['select', 'insert', 'update', 'delete']) p;
  -- Iceberg's JDBC catalog works on its tables directly.
  return query
  select 'penstock_operator', 'table', t, p from unnest(array['penstock.iceberg_tables',
    'penstock.iceberg_namespace_properties']) t
  cross join unnest(array['select', 'insert', 'update', 'delete']) p;
  return query
  select r, 'function', f, 'execute' from unnest(array['penstock_consumer', 'penstock_operator']) r
  cross join unnest(array['mdb_queue._nothing()', 'mdb_queue._rows(integer,text)', 'mdb_queue._name(integer)',
    'mdb_queue._body(smallint,bigint)']) f;
end $$;

-- Returns the names of the three roles. Locks: none. Indexes: none.
create or replace function penstock._roles() returns text[] language sql immutable as $$
  select array['penstock_producer', 'penstock_consumer', 'penstock_operator']
$$;

-- Returns the differences from _grants: roles that do not exist (with a null), grants that a role lacks, and privileges
-- of PUBLIC. Roles may have been created after the schema, and a restored dump lacks the grants to roles that did not
-- exist. `penstock migrate up` makes the missing grants, and `penstock doctor` reports them. Locks: ACCESS SHARE. Reads
-- the catalog and migration_contract.
create or replace function penstock.check_grants() returns table (role_name text, problem text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select r, null::text from unnest(penstock._roles()) r where to_regrole(r) is null;
  return query
  select g.role_name, format('lacks %s on %s %s', g.privilege, g.kind, g.object) from penstock._grants() g
  where to_regrole(g.role_name) is not null and not case
    when g.kind = 'schema' then has_schema_privilege(g.role_name, g.object, g.privilege)
    when g.kind = 'function' then has_function_privilege(g.role_name, g.object, g.privilege)
    when g.privilege = 'select (id)' then has_column_privilege(g.role_name, g.object, 'id', 'select')
    else has_table_privilege(g.role_name, g.object, g.privilege) end;
  -- The grants of a contract are made together, so one check is enough.
  return query
  select r, format('lacks usage on schema %s', c.name) from penstock.migration_contract c cross
    join unnest(penstock._roles()) r
  where to_regnamespace(c.name) is not null and to_regrole(r) is not null
    and not has_schema_privilege(r, c.name, 'usage');
  -- A user that may execute our trigger function could attach it to their own table, and so choose what it reads.
  return query
  select 'public', format('has execute on function %s', p.oid::regprocedure) from pg_proc p
  where p.pronamespace in ('penstock'::regnamespace, 'mdb_queue'::regnamespace)
    and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0);
end $$;
