-- Spark as a producer. The rows of a write are staged by its tasks, and published by its driver once all of them are
-- there (publish.sql). A task calls spark_stage for each piece of its partition.
--
-- spark_stage checks up to 10,000 messages for one queue and keeps them for spark_publish. Parallel arrays. A null
-- array, or a NULL in an array, means the default. Returns their number and a checksum: the sum of the hashes of the
-- messages, modulo 2^63 - 1, so that it depends neither on their order nor on how they are divided. If a message is
-- refused, "index" in the detail of the error says which, counted from 0. Locks: none. Uses spark_staged_pkey.
create or replace function penstock.spark_stage(
  attempt uuid, piece integer, queue text, payloads jsonb[], payloads_bytes bytea[] default null,
  headers jsonb[] default null, keys text[] default null, priorities integer[] default null,
  group_keys text[] default null, delays double precision[] default null, visible_ats timestamptz[] default null,
  ttls double precision[] default null, max_attempts integer[] default null,
  out count integer, out checksum bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  q penstock.queue := penstock._spark_queue(spark_stage.queue);
  p penstock.spark_staged;
begin
  p.attempt := spark_stage.attempt;
  p.piece := spark_stage.piece;
  p.staged_at := clock_timestamp();
  p.queue := q.name;
  p.payloads := spark_stage.payloads;
  p.payloads_bytes := spark_stage.payloads_bytes;
  p.headers := spark_stage.headers;
  p.keys := spark_stage.keys;
  p.priorities := spark_stage.priorities;
  p.group_keys := spark_stage.group_keys;
  p.delays := spark_stage.delays;
  p.visible_ats := spark_stage.visible_ats;
  p.ttls := spark_stage.ttls;
  p.max_attempts := spark_stage.max_attempts;
  p := penstock._spark_check_piece(q, p);
  count := p.count;
  checksum := p.checksum;
  insert into penstock.spark_staged values (p.*);
end $$;

-- The queue that messages are for. Locks: none. Uses queue_name_key.
create or replace function penstock._spark_queue(queue text) returns penstock.queue language plpgsql as $$
declare
  q penstock.queue;
begin
  perform penstock._check_internal(queue);
  select * into q from penstock.queue t where t.name = _spark_queue.queue;
  if not found then
    perform penstock._check_name(queue);
    perform penstock._fail_unknown_queue(queue);
  end if;
  return q;
end $$;

-- Checks every message of a piece, and fills in its checksum and the flags for _spark_put. Most pieces need one
-- pass; values with separate limits and large payloads take a second pass, message by message.
--: define is_doubtful(payload) as
case when pg_column_size({payload}) > 65536 then true else octet_length({payload}::text) > q.max_payload_bytes end
--: end
create or replace function penstock._spark_check_piece(q penstock.queue, p penstock.spark_staged)
returns penstock.spark_staged language plpgsql as $$
declare
  modulus     constant numeric := {bigint.max};
  seed        constant bigint := hashtextextended(q.name, 0);
  is_doubtful boolean;
  hashes      numeric;
  at          bigint := 0;
  m           record;
  fields      jsonb;
  hint        text;
  detail      text;
begin
  if (p.payloads_bytes, p.headers, p.keys, p.priorities, p.group_keys, p.delays, p.visible_ats, p.ttls, p.max_attempts)
    is null then
    select pg_catalog.count(*), coalesce(max(pg_column_size(u)), 0), bool_or(u is null or {is_doubtful(u)}), false,
      false, sum(jsonb_hash_extended(u, seed))
    into p.count, p.largest, is_doubtful, p.is_scheduled, p.has_lanes, hashes
    from unnest(p.payloads) u;
  else
    select pg_catalog.count(*), coalesce(max(greatest(pg_column_size(i.payload), octet_length(i.payload_bytes))), 0),
      bool_or((i.payload is null) = (i.payload_bytes is null) or i.headers is not null
        or i.key is not null or i.group_key is not null or i.priority not between -9 and 9
        or i.max_attempts not between 1 and 100 or i.delay is not null or i.visible_at is not null or i.ttl is not null
        or octet_length(i.payload_bytes) > q.max_payload_bytes or {is_doubtful(i.payload)}),
      coalesce(bool_or(i.delay > 0 or i.visible_at is not null), false),
      coalesce(min(i.priority) <> 0 or max(i.priority) <> 0 or min(i.ttl) > 0, false),
      sum(case when (i.payload_bytes, i.headers, i.key, i.priority, i.group_key, i.delay, i.visible_at, i.ttl,
          i.max_attempts) is null
        then jsonb_hash_extended(i.payload, seed)
        else hash_record_extended((i.payload_bytes, i.headers, i.key, i.priority, i.group_key, i.delay, i.visible_at,
          i.ttl, i.max_attempts), coalesce(jsonb_hash_extended(i.payload, seed), seed)) end)
    into p.count, p.largest, is_doubtful, p.is_scheduled, p.has_lanes, hashes
    from unnest(p.payloads, p.payloads_bytes, p.headers, p.keys, p.priorities, p.group_keys, p.delays, p.visible_ats,
      p.ttls, p.max_attempts)
         i (payload, payload_bytes, headers, key, priority, group_key, delay, visible_at, ttl, max_attempts);
  end if;
  p.checksum := mod(mod(hashes, modulus) + modulus, modulus);
  if p.count not between 1 and {limit.messages} then
    perform penstock._fail_value('payloads', p.count || ' messages', '1 to {limit.messages} messages a call');
  end if;
  if is_doubtful then
    begin
      for m in select * from unnest(p.payloads, p.payloads_bytes, p.headers, p.keys, p.priorities, p.group_keys,
          p.delays, p.visible_ats, p.ttls, p.max_attempts)
            i (payload, payload_bytes, headers, key, priority, group_key, delay, visible_at, ttl, max_attempts) loop
        -- make_interval would fail without the name of the field. NaN is larger than every number.
        if abs(m.delay) > 1e11 then
          perform penstock._fail_value('delay', m.delay || ' seconds', '0 to 100 years');
        end if;
        if abs(m.ttl) > 1e11 then
          perform penstock._fail_value('ttl', m.ttl || ' seconds', 'more than 0, up to 100 years');
        end if;
        perform penstock._check_message(q, m.payload, m.payload_bytes, m.headers, m.key, coalesce(m.priority, 0),
          m.group_key, make_interval(secs => m.delay), m.visible_at, make_interval(secs => m.ttl), m.max_attempts);
        at := at + 1;
      end loop;
    exception when others then
      get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
      fields := case when sqlstate ^@ 'PS' then detail::jsonb else '{}' end || jsonb_build_object('index', at);
      raise exception using errcode = sqlstate, message = sqlerrm, detail = fields::text, hint = hint;
    end;
  end if;
  return p;
end $$;

-- Drops the staged messages of these attempts. Locks: the rows. Uses spark_staged_pkey.
create or replace function penstock.spark_unstage(attempts uuid[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from penstock.spark_staged s where s.attempt = any (attempts);
$$;

-- Part of the upkeep: drops the staged messages of abandoned writes, a day later, and forgets writes that had
-- no name. Reads all of spark_staged, which has one row for each piece of a write that is under way. Locks: the rows,
-- with SKIP LOCKED.
create or replace function penstock._forget_staged() returns integer language plpgsql as $$
declare
  dropped integer;
begin
  delete from penstock.spark_staged where ctid = any (array(
    select s.ctid from penstock.spark_staged s where s.staged_at < clock_timestamp() - interval '1 day' limit 1000
      for update skip locked));
  get diagnostics dropped = row_count;
  delete from penstock.spark_write where ctid = any (array(
    select w.ctid from penstock.spark_write w
    where not w.is_named and w.published_at < clock_timestamp() - interval '1 day' limit 1000 for update skip locked));
  return dropped;
end $$;
