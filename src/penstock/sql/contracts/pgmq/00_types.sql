-- Schema pgmq: PGMQ's functions, records and channel names over Penstock's queues. The functions call those of schema
-- penstock, so their locks and indexes are the same unless a header says otherwise.
do $schema$
declare
  ours   constant text := 'Queues of Penstock, for code written against PGMQ.';
  theirs text;
begin
  if to_regnamespace('pgmq') is not null and obj_description(to_regnamespace('pgmq'), 'pg_namespace') is distinct
    from ours then
    theirs := (select format('the extension pgmq %s is installed in this database', e.extversion) from pg_extension e
               where e.extname = 'pgmq' and e.extnamespace = to_regnamespace('pgmq'));
    raise exception '%', coalesce(theirs, 'schema pgmq already exists and does not belong to Penstock')
      using hint = 'Move its messages with `penstock import pgmq`, then drop it. '
        'Or install Penstock''s pgmq in another database.';
  end if;
  create schema if not exists pgmq;
  execute format('comment on schema pgmq is %L', ours);
end $schema$;

do $types$
begin
  if to_regtype('pgmq.message_record') is null then
    create type pgmq.message_record as (
      msg_id bigint, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz, vt timestamptz, message jsonb,
        headers jsonb);
    create type pgmq.queue_record as (queue_name varchar, is_partitioned boolean, is_unlogged boolean,
      created_at timestamptz);
    create type pgmq.metrics_result as (
      queue_name text, queue_length bigint, newest_msg_age_sec integer, oldest_msg_age_sec integer,
        total_messages bigint,
      scrape_time timestamptz, queue_visible_length bigint, default_partition_length bigint);
  end if;
end $types$;

-- PGMQ has no bytes, so they appear as a JSON string in base64.
create or replace function pgmq._message(body_slot smallint, id bigint, payload jsonb, payload_bytes bytea)
returns jsonb language sql stable as $$
  select case when body_slot is null then coalesce(payload, to_jsonb(encode(payload_bytes, 'base64')))
              else coalesce(penstock._body_json(body_slot, id),
                to_jsonb(encode(penstock._body_bytes(body_slot, id), 'base64'))) end
$$;

-- Returns a message as a record of PGMQ.
create or replace function pgmq._record(l penstock.leased_0) returns pgmq.message_record language sql stable as $$
  select l.id, l.attempt::integer, l.enqueued_at, l.claimed_at, l.lease_until,
    pgmq._message(l.body_slot, l.id, l.payload, l.payload_bytes), l.headers
$$;
create or replace function pgmq._record(m penstock.envelope, vt timestamptz) returns pgmq.message_record language sql
  stable as $$
  select m.id, m.attempt::integer, m.enqueued_at, m.claimed_at, vt,
    pgmq._message(m.body_slot, m.id, m.payload, m.payload_bytes), m.headers
$$;
