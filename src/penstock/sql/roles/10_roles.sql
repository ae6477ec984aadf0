-- Who may do what: penstock_producer enqueues, penstock_consumer claims and settles, penstock_operator does everything but
-- migrate. Nobody else may do anything. Laid down last, whenever functions or views were: a new function is the
-- operator's alone until it is named here.
--
-- Roles belong to the cluster, not to the database: they are made where the migrating user may make roles, and granted
-- where they are. Every function they may call has a search_path of its own; those that touch tables are SECURITY DEFINER.
do $roles$
declare
  producers constant text[] := array['enqueue', 'enqueue_many', 'spark_enqueue', 'spark_complete', 'schema_version', 'wake_channel'];
  consumers constant text[] := array['claim', 'ack', 'ack_many', 'nack', 'nack_many', 'reject', 'reject_many', 'snooze', 'snooze_many', 'extend',
                                     'extend_many', 'stats', 'maintain', 'attend', 'wake_channel', 'beat', 'retire', 'fire_schedules', 'schema_version',
                                     'spark_attach', 'spark_plan', 'spark_ready', 'spark_claim', 'spark_ack', 'spark_seen', 'spark_unsettled',
                                     'spark_settle', 'spark_release'];
  role_name text;
  f         record;
begin
  foreach role_name in array array['penstock_producer', 'penstock_consumer', 'penstock_operator'] loop
    if to_regrole(role_name) is null then
      begin
        execute format('create role %I nologin', role_name);
      exception
        when insufficient_privilege then
          raise log 'penstock: % may not create role %', current_user, role_name;
        when duplicate_object or unique_violation then
          null;   -- another database of the cluster was being migrated
      end;
    end if;
  end loop;

  revoke all on all functions in schema penstock, mdb_queue from public;
  if to_regrole('penstock_producer') is null or to_regrole('penstock_consumer') is null or to_regrole('penstock_operator') is null then
    return;
  end if;
  grant usage on schema penstock, mdb_queue to penstock_producer, penstock_consumer, penstock_operator;

  for f in select p.oid::regprocedure as signature, p.proname as name from pg_proc p
           where p.pronamespace = 'penstock'::regnamespace and p.proname !~ '^_' loop
    execute format('grant execute on function %s to penstock_operator', f.signature);
    if f.name = any (producers) then
      execute format('grant execute on function %s to penstock_producer', f.signature);
    end if;
    if f.name = any (consumers) then
      execute format('grant execute on function %s to penstock_consumer', f.signature);
    end if;
  end loop;

  for f in select c.oid::regclass as name from pg_class c where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'v'
           and c.relname !~ '^(ready|held)_[0-9]$' loop
    execute format('grant select on %s to penstock_operator', f.name);
  end loop;
  grant select on penstock.queues to penstock_producer, penstock_consumer;
  -- What the views show of large payloads.
  grant execute on function penstock._body_json(smallint, bigint), penstock._body_bytes(smallint, bigint) to penstock_operator;

  grant select on mdb_queue.queues to penstock_producer, penstock_consumer;
  grant insert on mdb_queue.messages to penstock_producer;
  grant select (id) on mdb_queue.messages to penstock_producer;      -- for RETURNING id; reading takes _rows
  grant select, update, delete on mdb_queue.messages to penstock_consumer;
  grant select on mdb_queue.dead_messages to penstock_consumer;
  grant select, insert, update, delete on mdb_queue.queues, mdb_queue.messages, mdb_queue.dead_messages to penstock_operator;
  grant execute on function mdb_queue._nothing(), mdb_queue._rows(integer, text), mdb_queue._name(integer), mdb_queue._body(smallint, bigint)
    to penstock_consumer, penstock_operator;
end $roles$;
