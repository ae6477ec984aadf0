-- Every error of the engine is raised here: own SQLSTATE, the facts as JSON in DETAIL, the way out in HINT.
create or replace function penstock._fail(code text, message text, fields jsonb, hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = code, message = message, detail = fields::text, hint = hint;
end $$;

create or replace function penstock._fail_unknown_queue(queue text) returns void language plpgsql as $$
begin
  if queue is null then
    perform penstock._fail_value('queue', null, 'the name of a queue');
  end if;
  perform penstock._fail('PS001', format('queue %L does not exist', queue), jsonb_build_object('queue', queue),
    format('Create it with: select penstock.create_queue(%L)', queue));
end $$;

create or replace function penstock._fail_value(field text, value text, allowed text) returns void
language plpgsql as $$
begin
  perform penstock._fail('PS004', format('%s is %s; allowed: %s', field, coalesce(quote_literal(left(value, 200)), 'null'), allowed),
    jsonb_build_object('field', field, 'value', left(value, 200), 'allowed', allowed),
    format('Give %s a value that is allowed: %s.', field, allowed));
end $$;

create or replace function penstock._fail_lost(id bigint) returns void language plpgsql as $$
begin
  perform penstock._fail('PS007', format('the lease on message %s is lost: it ran out, or the message was settled or cancelled', id),
    jsonb_build_object('id', id),
    'Nothing was changed. Stop work on this message; extend leases in time, or claim with a longer lease_seconds.');
end $$;

create or replace function penstock._fail_full(queue text, max_depth bigint) returns void language plpgsql as $$
begin
  perform penstock._fail('PS008', format('queue %L is full: it holds its max_depth of %s messages', queue, max_depth),
    jsonb_build_object('queue', queue, 'max_depth', max_depth),
    'Nothing was enqueued. Try again later, claim faster, or raise max_depth.');
end $$;

create or replace function penstock._fail_unknown_message(id bigint, hint text default 'It may have finished already: see penstock.history.')
returns void language plpgsql as $$
begin
  perform penstock._fail('PS010', format('message %s is not there', coalesce(id::text, 'null')), jsonb_build_object('id', id), hint);
end $$;

-- Names: what a queue may be called, and what is reserved.
create or replace function penstock._check_name(queue text) returns void language plpgsql as $$
begin
  if queue ~ '\.dlq$' then
    perform penstock._fail('PS003', format('%L is reserved: names that end in .dlq hold dead letters', queue), jsonb_build_object('queue', queue),
      'Dead letters come there by themselves; use a name that does not end in .dlq.');
  elsif queue !~ '^[a-z0-9._-]{1,128}$' or queue is null then
    perform penstock._fail('PS003', format('%L is not a queue name', left(queue, 200)), jsonb_build_object('queue', left(queue, 200)),
      'A name has 1 to 128 of: lowercase letters, digits, - _ and .');
  end if;
end $$;
