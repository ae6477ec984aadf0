-- Raise the errors of the engine. A SQLSTATE has one meaning, so one call of _fail raises it. Errors that several
-- functions raise have their own function here.
--
-- _fail takes a SQLSTATE of Penstock, the facts as JSON for DETAIL, and what to do for HINT. DETAIL
-- is the source of the fields of the Python errors, so a new fact goes there and not only into the message.
-- Locks: none. Indexes: none.
create or replace function penstock._fail(code text, message text, fields jsonb, hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = code, message = message, detail = fields::text, hint = hint;
end $$;

-- PS001: the queue does not exist.
create or replace function penstock._fail_unknown_queue(queue text) returns void language plpgsql as $$
begin
  if queue is null then
    perform penstock._fail_value('queue', null, 'the name of a queue');
  end if;
  perform penstock._fail_no_queue(queue, '', jsonb_build_object('queue', queue),
    format('Create it with: select penstock.create_queue(%L)', queue));
end $$;

-- PS001, with the facts and the hint of the caller. place: for example ' on service ''a''', or nothing.
create or replace function penstock._fail_no_queue(queue text, place text, fields jsonb, hint text) returns void
language plpgsql as $$
begin
  perform penstock._fail('PS001', format('queue %L does not exist', queue) || place, fields, hint);
end $$;

-- PS002: the queue exists. place: as in _fail_no_queue.
create or replace function penstock._fail_queue_exists(queue text, place text, fields jsonb, hint text) returns void
language plpgsql as $$
begin
  perform penstock._fail('PS002', format('queue %L already exists', queue) || place, fields, hint);
end $$;

-- PS004: a value is not allowed.
create or replace function penstock._fail_value(field text, value text, allowed text) returns void
language plpgsql as $$
begin
  perform penstock._fail('PS004', format('%s is %s; allowed: %s', field,
    coalesce(quote_literal(left(value, 200)), 'null'), allowed),
    jsonb_build_object('field', field, 'value', left(value, 200), 'allowed', allowed),
    format('Change %s to an allowed value: %s.', field, allowed));
end $$;

-- PS005: the payload is larger than the queue allows.
create or replace function penstock._fail_too_large(q penstock.queue, size bigint) returns void language plpgsql as $$
begin
  perform penstock._fail({sqlstate.payload_too_large},
    format('the payload has %s bytes; queue %L takes %s', size, q.name, q.max_payload_bytes),
    jsonb_build_object('queue', q.name, 'size', size, 'limit', q.max_payload_bytes),
    'Store the bulk elsewhere and enqueue a reference, or raise max_payload_bytes of the queue.');
end $$;

-- PS007: the lease is lost.
create or replace function penstock._fail_lost(id bigint) returns void language plpgsql as $$
begin
  perform penstock._fail('PS007',
    format('the lease on message %s is lost: it expired, or the message was settled or cancelled', id),
    jsonb_build_object('id', id),
    'Nothing was changed. Stop work on this message. Extend leases in time, or claim with a longer lease_seconds.');
end $$;

-- PS008: the queue has reached max_depth.
create or replace function penstock._fail_full(queue text, max_depth bigint) returns void language plpgsql as $$
begin
  perform penstock._fail_no_room(queue, max_depth, 'is full: it has reached its max_depth of %s messages',
    'Nothing was enqueued. Try again later, claim faster, or raise max_depth.');
end $$;

-- PS008, in the words of the caller: problem has a %s for max_depth.
create or replace function penstock._fail_no_room(queue text, max_depth bigint, problem text, hint text)
returns void language plpgsql as $$
begin
  perform penstock._fail('PS008', format('queue %L ' || problem, queue, max_depth),
    jsonb_build_object('queue', queue, 'max_depth', max_depth), hint);
end $$;

-- PS010: the message does not exist.
create or replace function penstock._fail_unknown_message(id bigint,
  hint text default 'It may have finished: see penstock.history.')
returns void language plpgsql as $$
begin
  perform penstock._fail({sqlstate.unknown_message}, format('message %s does not exist', coalesce(id::text, 'null')),
    jsonb_build_object('id', id), hint);
end $$;

-- PS024: the queue of a service is not Active.
create or replace function penstock._fail_not_active(queue text, status text, hint text) returns void
language plpgsql as $$
begin
  perform penstock._fail('PS024', format('queue %L is %s, not Active', queue, status),
    jsonb_build_object('queue', queue, 'status', status), hint);
end $$;

-- PS040: the status of a task of a service does not allow the call.
create or replace function penstock._fail_task_status(task uuid, status text, hint text) returns void
language plpgsql as $$
begin
  perform penstock._fail('PS040', format('task %s is %s', task, status),
    jsonb_build_object('task', task, 'status', status), hint);
end $$;

-- PS051: a job of Spark was written before, with other rows.
create or replace function penstock._fail_job_written(message text, job text, fields jsonb, hint text) returns void
language plpgsql as $$
begin
  perform penstock._fail('PS051', message, jsonb_build_object('job', job) || fields, hint);
end $$;

-- PS053: the messages of a batch of a stream cannot be read again.
create or replace function penstock._fail_batch_gone(problem text, consumer text, tick bigint, hint text) returns void
language plpgsql as $$
begin
  perform penstock._fail('PS053', format('batch %s of consumer %L ', tick, consumer) || problem,
    jsonb_build_object('consumer', consumer, 'tick', tick), hint);
end $$;

-- PS021: there is no valid key of this name or id.
create or replace function penstock._fail_unknown_key(key text) returns void language plpgsql as $$
begin
  perform penstock._fail('PS021', format('there is no valid API key %L', left(key, 200)),
    jsonb_build_object('key', left(key, 200)), 'The view penstock.api_keys lists all keys.');
end $$;
