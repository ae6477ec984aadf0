-- Queues. PGMQ's names are not case sensitive, and Penstock's are lower case. _queue returns a queue by its name, or
-- raises PS001. Locks: none. Uses queue_name_key.

-- Returns a queue by its name, or raises PS001. Locks: none. Uses queue_name_key.
create or replace function pgmq._queue(queue_name text) returns penstock.queue language plpgsql stable as $$
declare
  q penstock.queue;
begin
  -- Internal queues are not available through PGMQ.
  select * into q from penstock.queue t where t.name = lower(queue_name) and not t.name ^@ 'penstock.';
  if not found then
    perform penstock._fail_no_queue(queue_name, '', jsonb_build_object('queue', queue_name),
      format('Create it with: select pgmq.create(%L)', queue_name));
  end if;
  return q;
end $$;

-- Refuses a name that is too long for PGMQ.
create or replace function pgmq.validate_queue_name(queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if length(queue_name) > 47 then
    raise exception 'queue name is too long, maximum length is 47 characters';
  end if;
end $$;

-- Returns the name that the table of a queue would have in PGMQ.
create or replace function pgmq.format_table_name(queue_name text, prefix text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if queue_name ~ '\$|;|--|''' then
    raise exception 'queue name contains invalid characters: $, ;, --, or ''';
  end if;
  return lower(prefix || '_' || queue_name);
end $$;

-- Locks the name of a queue until commit, by an advisory lock.
create or replace function pgmq.acquire_queue_lock(queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('penstock queue ' || lower(queue_name), 0));
end $$;

-- Creates a queue if it is missing, and the views q_<queue> and a_<queue> that PGMQ has as tables. Like PGMQ's, a new
-- queue accepts any message, has no limit of attempts and keeps no history. Locks: an advisory lock on the name until
-- commit. Uses queue_name_key and pgmq_queue_pkey.
create or replace function pgmq._create(queue_name text, partitioned boolean, unlogged boolean) returns void
language plpgsql as $$
declare
  queue constant text := lower(queue_name);
  q     penstock.queue;
begin
  perform pgmq.validate_queue_name(queue_name), pgmq.format_table_name(queue_name, 'q'),
    pgmq.acquire_queue_lock(queue_name);
  perform penstock.create_queue(queue, '{"max_attempts": 100, "keep_history": 0, "max_payload_bytes": 104857600}',
    exist_ok => true);
  select * into q from penstock.queue t where t.name = queue;
  if exists (select from penstock.pgmq_queue p where p.queue_id = q.id) then
    return;
  end if;
  insert into penstock.pgmq_queue (queue_id, key, name, is_partitioned, is_unlogged, sent_register)
  values (q.id, queue, queue_name, partitioned, unlogged, penstock._register('sent_' || q.id));
  perform pgmq._make_views(q.id, queue);
end $$;

-- Creates the views q_<queue> and a_<queue>, and lets consumers and operators read them. Locks: as CREATE VIEW. The
-- views use pgmq._rows and pgmq_archive_pkey.
create or replace function pgmq._make_views(queue_id integer, queue text) returns void language plpgsql as $$
begin
  execute format('create or replace view pgmq.%I as
                    select m.msg_id, m.read_ct, m.enqueued_at,
                      case when m.last_read_at = ''-infinity'' then pgmq._read_at(m.lane, m.place)
                           else m.last_read_at end as last_read_at, m.vt,
                      case when m.lane is null and m.body_slot is null then m.message
                           else pgmq._payload(m.lane, m.place, m.body_slot, m.msg_id) end as message, m.headers
                    from pgmq._rows(%s) m', 'q_' || queue, queue_id);
  execute format('create or replace view pgmq.%I as
                    select a.msg_id, a.read_ct, a.enqueued_at, a.last_read_at, a.archived_at, a.vt, a.message, a.headers
                    from penstock.pgmq_archive a where a.queue_id = %s', 'a_' || queue, queue_id);
  if to_regrole('penstock_operator') is not null and to_regrole('penstock_consumer') is not null then
    execute format('grant select on pgmq.%I, pgmq.%I to penstock_consumer', 'q_' || queue, 'a_' || queue);
    execute format('grant select, delete on pgmq.%I, pgmq.%I to penstock_operator', 'q_' || queue, 'a_' || queue);
  end if;
end $$;

-- Drops the views and registers of a queue when the queue is dropped through any interface. Only the owner may execute
-- it: a user that may attach it to their own table could choose what it drops.
create or replace function penstock._forget_pgmq_queue() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  execute format('drop view if exists pgmq.%I, pgmq.%I', 'q_' || old.key, 'a_' || old.key);
  execute format('drop sequence %s', old.sent_register);
  if old.notified_register is not null then
    execute format('drop sequence %s', old.notified_register);
  end if;
  return null;
end $$;
create or replace trigger forget after delete on penstock.pgmq_queue for each row
  execute function penstock._forget_pgmq_queue();

-- Creates a queue. Locks and indexes: as _create.
create or replace function pgmq.create(queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq._create(queue_name, false, false);
end $$;

-- The same under another name of PGMQ. Locks and indexes: as create_queue.
create or replace function pgmq.create_non_partitioned(queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq._create(queue_name, false, false);
end $$;

-- The queue is as durable as any other, because an unlogged queue would not be faster. Locks and indexes: as
-- create_queue.
create or replace function pgmq.create_unlogged(queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq._create(queue_name, false, true);
end $$;

-- Every queue uses segments that are truncated when they are drained, so partitions are not needed. The intervals are
-- checked and ignored: no message is dropped by age. Locks and indexes: as create_queue.
create or replace function pgmq.create_partitioned(
  queue_name text, partition_interval text default '10000', retention_interval text default '100000',
    premake integer default 4)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if premake < 1 or premake is null then
    raise exception 'premake must be at least 1, got %', coalesce(premake::text, 'null');
  end if;
  perform pgmq._check_interval('partition_interval', partition_interval),
    pgmq._check_interval('retention_interval', retention_interval);
  perform pgmq._create(queue_name, true, false);
end $$;

-- Refuses a text that is neither a number nor an interval.
create or replace function pgmq._check_interval(field text, value text) returns void language plpgsql as $$
begin
  if value !~ '^\d+$' or value is null then
    perform value::interval;
    if value is null then
      raise invalid_text_representation;
    end if;
  end if;
exception when invalid_text_representation or invalid_datetime_format or datetime_field_overflow then
  perform penstock._fail_value(field, value, 'a number of messages, or an interval such as 1 day');
end $$;

-- tembo-pgmq-python calls create_partitioned by this name. Locks and indexes: as create_queue.
create or replace function pgmq.create(queue_name text, partition_interval text, retention_interval text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq.create_partitioned(queue_name, partition_interval, retention_interval);
end $$;

-- Checks its arguments as PGMQ does, and changes nothing: the archive of a queue needs no partitions.
create or replace function pgmq.convert_archive_partitioned(
  table_name text, partition_interval text default '10000', retention_interval text default '100000',
    leading_partition integer default 10)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq._queue(table_name), pgmq._check_interval('partition_interval', partition_interval),
    pgmq._check_interval('retention_interval', retention_interval);
end $$;

-- Does nothing, as in PGMQ, where it is deprecated.
create or replace function pgmq.detach_archive(queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  raise warning 'detach_archive(queue_name) is deprecated, and does nothing';
end $$;

-- Reads by group read the messages themselves, so there is no index to create.
create or replace function pgmq.create_fifo_index(queue_name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq._queue(queue_name);
end $$;

-- Does nothing, for the same reason.
create or replace function pgmq.create_fifo_indexes_all() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  null;
end $$;

-- Drops a queue with its messages. False if it does not exist. Locks: an advisory lock on the name until commit,
-- otherwise as penstock.drop_queue. Uses queue_name_key.
create or replace function pgmq.drop_queue(queue_name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pgmq.acquire_queue_lock(queue_name);
  if not exists (select from penstock.queue q where q.name = lower(queue_name)) then
    raise notice 'pgmq queue `%` does not exist', queue_name;
    return false;
  end if;
  perform penstock.drop_queue(lower(queue_name), force => true);
  return true;
end $$;

create or replace function pgmq.drop_queue(queue_name text, partitioned boolean) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  raise warning 'drop_queue(queue_name, partitioned) is deprecated: use drop_queue(queue_name)';
  perform pgmq.drop_queue(queue_name);
  return true;
end $$;

-- Removes all messages of a queue, and returns their number. Locks and indexes: as penstock.purge.
create or replace function pgmq.purge_queue(queue_name text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return penstock.purge((pgmq._queue(queue_name)).name, include_leased => true);
end $$;

-- Lists all queues, including those that were created through other interfaces. Locks: ACCESS SHARE. Uses
-- pgmq_queue_pkey.
create or replace view pgmq.meta as
select coalesce(p.name, q.name)::varchar as queue_name, coalesce(p.is_partitioned, false) as is_partitioned,
       coalesce(p.is_unlogged, false) as is_unlogged, coalesce(p.created_at, q.created_at) as created_at
from penstock.queue q left join penstock.pgmq_queue p on p.queue_id = q.id where not q.name ^@ 'penstock.';

-- Returns the rows of pgmq.meta. Locks: ACCESS SHARE. Scans the queues.
create or replace function pgmq.list_queues() returns setof pgmq.queue_record
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select * from pgmq.meta m order by m.queue_name;
end $$;

-- Returns the rows of q_<queue>: every message that was neither deleted nor archived. The function is STABLE, so that
-- all tables are read with the snapshot of the caller's statement, and a message that moves between them is shown once.
-- The ring is read after that, so it names every segment with visible rows.
--
-- The rows do not contain the payloads of ready messages, because PostgreSQL stores the whole result before it returns
-- the first row, and most callers only count. For the same reason, the view looks up the grant of a message leased in
-- place, whose last_read_at is -infinity here. Tables without blocks are not read, nor are older lanes if the first row
-- is in the current one. Locks: ACCESS SHARE. Uses lane_N_order from the first row of the queue on, grouped_order,
-- scheduled_queue and leased_N_until.
create or replace function pgmq._rows(queue_id integer) returns table (
  msg_id bigint, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz, vt timestamptz, message jsonb,
    headers jsonb,
  lane smallint, place tid, body_slot smallint)   -- the location of the payload, if it is not in message
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  first bigint;
  lanes smallint[];
  slots text;      -- the segments that may hold rows, the current one last
  lone  boolean;   -- the queue has no row in the lanes of older segments
  slot  integer;
begin
  -- One statement, for the reason given in penstock._count.
  select t.lanes, t.first, '0' || {ring.not_free({ring.text})}, t.first > {ring.current_from}
  into lanes, first, slots, lone
  from (select penstock._first_row(q.id, q.first_row_register, q.first_row_xid_register) as first,
          case when pg_sequence_last_value(q.lanes_register) = q.lane_bits then q.priorities
            else (penstock._with_lanes(q)).priorities end as lanes
        from penstock.queue q where q.id = _rows.queue_id and not q.name ^@ 'penstock.') t;
  if lanes is null then
    return;
  end if;
  if pg_relation_size('penstock.scheduled', 'main') > bigint '0' then
    return query
    select t.id, t.attempt::integer, t.enqueued_at, t.claimed_at, t.due_at,
      coalesce(t.payload, to_jsonb(encode(t.payload_bytes, 'base64'))), t.headers,
      null::smallint, null::tid, t.body_slot
    from penstock.scheduled t where t.queue_id = _rows.queue_id and t.group_key is null;
  end if;
  if pg_relation_size('penstock.grouped', 'main') > bigint '0' then
    return query
    select t.id, t.attempt::integer, t.enqueued_at, t.claimed_at, t.visible_at,
      coalesce(t.payload, to_jsonb(encode(t.payload_bytes, 'base64'))), t.headers,
      null::smallint, null::tid, t.body_slot
    from penstock.grouped t where t.queue_id = _rows.queue_id;
  end if;
  loop
    slot := right(slots, 1);
    --: branch on slot
    if lone is not null and pg_relation_size('penstock.lane_{slot}', 'main') > bigint '0' then
      return query
      select t.id, case when t.hold = 0 then t.attempt else least(t.attempt + 1, {limit.attempt}) end, t.enqueued_at,
        case when t.hold = 0 then t.claimed_at else '-infinity' end,
        case when t.hold = 0 then t.enqueued_at else penstock._hold_until(t.hold) end, null::jsonb, t.headers,
          {slot}::smallint, t.ctid, null::smallint
      from penstock.lane_{slot} t
      where t.queue_id = _rows.queue_id and t.priority = any (lanes) and t.position >= first and t.group_key is null;
    end if;
    if pg_relation_size('penstock.leased_{slot}', 'main') > bigint '0' then
      return query
      select t.id, t.attempt::integer, t.enqueued_at, t.claimed_at, t.lease_until,
        coalesce(t.payload, to_jsonb(encode(t.payload_bytes, 'base64'))), t.headers,
        null::smallint, null::tid, t.body_slot
      from penstock.leased_{slot} t where t.lease_until >= '-infinity' and t.queue_id = _rows.queue_id
        and t.dead_at is null;
    end if;
    --: end
    slots := left(slots, -1);
    exit when slots = '';
    lone := nullif(lone, true);   -- null from here on: no lanes are read
  end loop;
end $$;

-- Returns when the message at this place was last read, if it is leased in place. Locks: ACCESS SHARE. Reads one row by
-- its ctid, and uses grant_N_until.
create or replace function pgmq._read_at(lane smallint, place tid) returns timestamptz
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer := lane;
begin
  --: branch on slot
  return (select (select g.claimed_at from penstock.grant_{slot} g
                  where g.lease_until = penstock._hold_until(t.hold) and g.hold = t.hold limit 1)
          from penstock.lane_{slot} t where t.ctid = place);
  --: end
end $$;

-- Returns the payload of a row of _rows that does not contain it. Locks: ACCESS SHARE. Reads one row by its ctid.
create or replace function pgmq._payload(lane smallint, place tid, body_slot smallint, id bigint) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  slot integer := lane;
begin
  if slot is null then
    return pgmq._message(body_slot, id, null, null);
  end if;
  --: branch on slot
  return (select pgmq._message(t.body_slot, t.id, t.payload, t.payload_bytes) from penstock.lane_{slot} t
    where t.ctid = place);
  --: end
end $$;
