-- Grants of schema pgmq, as in the rest of Penstock: producers send, consumers read and settle, operators do
-- everything.
do $roles$
declare
  producers constant text[] := array['send', 'send_batch', 'send_topic', 'send_batch_topic', 'validate_routing_key',
    'test_routing', 'list_queues'];
  consumers constant text[] := array[
    'read', 'read_with_poll', 'read_grouped', 'read_grouped_with_poll', 'read_grouped_rr', 'read_grouped_rr_with_poll',
      'read_grouped_head',
    'read_grouped_head_with_poll', 'pop', 'delete', 'archive', 'set_vt', 'metrics', 'metrics_all', 'list_queues'];
  f record;
begin
  revoke all on all functions in schema pgmq from public;
  if to_regrole('penstock_producer') is null or to_regrole('penstock_consumer') is null
    or to_regrole('penstock_operator') is null then
    return;
  end if;
  grant usage on schema pgmq to penstock_producer, penstock_consumer, penstock_operator;
  for f in select p.oid::regprocedure as signature, p.proname as name from pg_proc p
           where p.pronamespace = 'pgmq'::regnamespace and p.proname !~ '^_' loop
    execute format('grant execute on function %s to penstock_operator', f.signature);
    if f.name = any (producers) then
      execute format('grant execute on function %s to penstock_producer', f.signature);
    end if;
    if f.name = any (consumers) then
      execute format('grant execute on function %s to penstock_consumer', f.signature);
    end if;
  end loop;
  grant select on pgmq.meta, pgmq.topic_bindings, pgmq.notify_insert_throttle to penstock_operator;
  -- The functions that q_<queue> calls.
  grant execute on function pgmq._rows(integer), pgmq._payload(smallint, tid, smallint, bigint),
    pgmq._read_at(smallint, tid) to penstock_consumer, penstock_operator;
end $roles$;

-- The schema may have been dropped and installed again, so queues may already have PGMQ rows without views.
select pgmq._make_views(p.queue_id, p.key) from penstock.pgmq_queue p;

-- _rows replaces it. Until now the views above used it.
do $drop$
begin
  drop function if exists pgmq._messages(integer);
exception when dependent_objects_still_exist then
  raise notice 'pgmq._messages is kept because your views use it. Change them to read pgmq.q_<queue>, then drop it';
end $drop$;
