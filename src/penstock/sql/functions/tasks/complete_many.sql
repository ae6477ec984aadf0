-- complete_many_v2 acks messages, keeps the results of their tasks, and enqueues the messages that come with their
-- acks, all in one transaction. Returns the ids that were settled. A missing one had lost its lease: its result is not
-- kept, and its messages are not enqueued.
-- results[i] and keep_seconds[i] are null for a message that keeps no result. enqueues is an array of objects with the
-- parameters of penstock.enqueue, and "after", the id of the message with whose ack it is enqueued. One with
-- "continues" is the next step of a chain: the result of the message leads to it, and it takes its place in its batch.
-- queues[i] is the queue of a message: its readers may read the result, also over HTTP and without history.
-- Locks: the rows of the messages. Uses the indexes of ack_many, result_pkey and queue_name_key.
create or replace function penstock.complete_many_v2(ids bigint[], tokens bigint[], results jsonb[],
  keep_seconds integer[], enqueues jsonb default null, queues text[] default null)
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  now_at  timestamptz := clock_timestamp();
  settled bigint[];
  members jsonb;
  n       integer;
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  perform penstock._check_pairs(ids, results, 'results');
  perform penstock._check_pairs(ids, keep_seconds, 'keep_seconds');
  if queues is not null then
    perform penstock._check_pairs(ids, queues, 'queues');
  end if;
  perform penstock._check_keep(min(k)), penstock._check_keep(max(k)) from unnest(keep_seconds) k;
  -- Most results are small. One expression finds those that may be too large.
  perform penstock._check_result(r) from unnest(results) r
    where case when pg_column_size(r) <= 1000 then octet_length(r::text) > 1048576 else true end;
  if enqueues is not null then
    perform penstock._check_may_enqueue();
    members := penstock._members_of(ids);
  end if;
  settled := array(select a.id from penstock.ack_many(ids, tokens) a (id));
  -- A message is settled once, so there is no result yet. DELETE and INSERT take 2 us less for a result than INSERT
  -- with ON CONFLICT, and the result stays correct if there is one.
  delete from penstock.result r where r.id = any (settled);
  insert into penstock.result (id, value, finished_at, expires_at, queue_id)
  select u.id, coalesce(u.value, 'null'), now_at, now_at + make_interval(secs => u.keep),
    (select q.id from penstock.queue q where q.name = regexp_replace(u.queue, '\.dlq$', ''))
  from unnest(ids, results, keep_seconds, queues) u (id, value, keep, queue)
  where u.keep is not null
    and (cardinality(settled) = cardinality(ids) or u.id in (select s.id from unnest(settled) s (id)));
  get diagnostics n = row_count;
  if n = cardinality(settled) then
    perform penstock._announce_results(settled);
  elsif n > 0 then
    perform penstock._announce_results(array_agg(u.id)) from unnest(ids, keep_seconds) u (id, keep)
    where u.keep is not null and u.id in (select s.id from unnest(settled) s (id));
  end if;
  if enqueues is not null then
    perform penstock._enqueue_after(settled, enqueues, members);
  end if;
  return query select s.id from unnest(settled) s (id);
end $$;

-- complete_many does the same without the queues: then results are found in SQL, and over HTTP with the history of
-- their messages. Locks and indexes: as complete_many_v2.
create or replace function penstock.complete_many(ids bigint[], tokens bigint[], results jsonb[],
  keep_seconds integer[], enqueues jsonb default null)
returns setof bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
  select penstock.complete_many_v2(ids, tokens, results, keep_seconds, enqueues)
$$;

-- Results are kept for 1 second to 10 years.
create or replace function penstock._check_keep(keep_seconds integer) returns void language plpgsql as $$
begin
  if keep_seconds not between 1 and {limit.ttl_seconds} then
    perform penstock._fail_value('keep_seconds', keep_seconds::text, 'a whole number from 1 to {limit.ttl_seconds}');
  end if;
end $$;

-- A result has at most 1 MiB as text. PostgreSQL stores 1e131000 in 12 bytes, and prints it with 131,001 digits.
create or replace function penstock._check_result(result jsonb) returns void language plpgsql as $$
declare
  size bigint := penstock._text_bytes(result);
begin
  if size > 1048576 then
    perform penstock._fail_value('results', format('%s bytes', size),
      'at most 1048576 bytes of JSON text for each message');
  end if;
end $$;

-- Consumers may ack, but only producers may enqueue, also with an ack. The caller is found as in _is_admin.
create or replace function penstock._check_may_enqueue() returns void language plpgsql as $$
begin
  if not has_function_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user),
                                'penstock.enqueue'::regproc::oid, 'execute') then
    perform penstock._fail('42501', 'permission denied: only producers may enqueue messages with an ack', '{}',
      'Log in as a member of both penstock_consumer and penstock_producer.');
  end if;
end $$;

-- Notifies the callers that wait for results. A notification has less than 8000 bytes: at most 375 ids of 20 digits.
create or replace function penstock._announce_results(ids bigint[]) returns void language plpgsql as $$
begin
  if cardinality(ids) between 1 and 375 then
    perform pg_notify('penstock:results', array_to_string(ids, ','));
    return;
  end if;
  perform pg_notify('penstock:results', string_agg(u.id::text, ','))
  from unnest(ids) with ordinality u (id, n) group by (u.n - 1) / 375;
end $$;

-- Enqueues the messages that go with the acks of settled messages, in the order given. members: the batch of each
-- message that was a member of one. Locks: the rows of the results, and as enqueue. Uses result_pkey.
create or replace function penstock._enqueue_after(settled bigint[], enqueues jsonb, members jsonb) returns void
language plpgsql as $$
declare
  m      record;
  batch  bigint;
  new_id bigint;
begin
  if jsonb_typeof(enqueues) <> 'array' then
    perform penstock._fail_value('enqueues', left(enqueues::text, 100), 'an array of objects');
  end if;
  for m in select * from penstock._messages_of(enqueues) t where t."after" = any (settled) loop
    -- A message with a key may be another one that waited already.
    batch := case when m.continues and m.key is null then (members ->> m."after"::text)::bigint end;
    new_id := penstock.enqueue(queue => m.queue, payload => m.payload, headers => case when batch is null then m.headers
        else coalesce(m.headers, '{}') || jsonb_build_object('penstock-batch', batch) end, key => m.key,
      priority => coalesce(m.priority, 0), group_key => m.group_key, delay => m.delay, visible_at => m.visible_at,
      ttl => m.ttl, max_attempts => m.max_attempts, on_conflict => coalesce(m.on_conflict, 'replace'),
      unique_while => coalesce(m.unique_while, 'waiting'));
    if m.continues then
      update penstock.result r set next_id = new_id where r.id = m."after";
    end if;
    if batch is not null then
      perform penstock._replace_member(batch, new_id, m.queue);
    end if;
  end loop;
end $$;

-- The batches of those messages that are members of one, by the ids of the messages. Locks: none. Uses
-- batch_member_pkey.
create or replace function penstock._members_of(ids bigint[]) returns jsonb language sql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
  select coalesce(jsonb_object_agg(m.id, m.batch_id) filter (where not m.is_dead), '{}')
  from penstock.batch_member m where m.id = any (ids)
$$;
