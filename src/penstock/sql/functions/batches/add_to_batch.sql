-- Enqueues messages as members of an open batch: parallel arrays as in enqueue_many, all or nothing. Returns their ids.
-- The header penstock-batch of each has the id of the batch. Members have no keys, because a message that replaces
-- another one could not be counted.
-- Locks until commit: the row of the batch, shared; the row of the queue, if these are its first members. Otherwise as
-- enqueue_many. Uses batch_pkey and queue_name_key.
create or replace function penstock.add_to_batch(batch_id bigint, queue text, payloads jsonb[] default null,
  payloads_bytes bytea[] default null, headers jsonb[] default null, priorities integer[] default null,
  group_keys text[] default null, delays interval[] default null, visible_ats timestamptz[] default null,
  ttls interval[] default null, max_attempts integer[] default null)
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  count constant integer := coalesce(cardinality(payloads), cardinality(payloads_bytes), 0);
  ids   bigint[];
begin
  perform penstock._check_open(add_to_batch.batch_id);
  update penstock.queue q set has_members = true where q.name = add_to_batch.queue and not q.has_members;
  ids := array(select penstock.enqueue_many(add_to_batch.queue, payloads, payloads_bytes,
    array(select coalesce(h, '{}') || jsonb_build_object('penstock-batch', add_to_batch.batch_id)
          from unnest(coalesce(add_to_batch.headers, array_fill(null::jsonb, array[count]))) with ordinality u (h, n)
          order by n),
    null, priorities, group_keys, delays, visible_ats, ttls, add_to_batch.max_attempts));
  insert into penstock.batch_member (id, batch_id) select i, add_to_batch.batch_id from unnest(ids) i;
  insert into penstock.batch_change (batch_id, added) values (add_to_batch.batch_id, cardinality(ids));
  return query select unnest(ids);
end $$;

-- Raises PS015 if the batch does not exist, and PS016 if it is sealed. Its row stays locked, shared, until commit:
-- seal_batch waits for the transactions that add members. Uses batch_pkey.
create or replace function penstock._check_open(batch_id bigint) returns void language plpgsql as $$
declare
  b penstock.batch;
begin
  select * into b from penstock.batch t where t.id = batch_id for key share;
  if b.id is null then
    perform penstock._fail_unknown_batch(batch_id);
  elsif b.sealed_at is not null then
    perform penstock._fail('PS016', format('batch %s is sealed: no messages can be added to it', batch_id),
      jsonb_build_object('batch', batch_id), 'Add all messages before you seal a batch, or create another batch.');
  end if;
end $$;

-- PS015: the batch does not exist.
create or replace function penstock._fail_unknown_batch(batch_id bigint) returns void language plpgsql as $$
begin
  perform penstock._fail('PS015', format('batch %s does not exist', coalesce(batch_id::text, 'null')),
    jsonb_build_object('batch', batch_id), 'Finished batches are deleted after seven days.');
end $$;
