-- Cancels members of a batch that have not ended, at most max_count of them, and seals it. Returns how many were
-- cancelled, and whether others are left. Workers and servers cancel the others soon: see continue_cancels. Call it
-- again, in another transaction, to cancel them sooner. Workers lose the leases of members that they run. Dead letters
-- stay. When no member is left, the batch finishes.
-- A member that another transaction has locked, for example because it has acked it, is left. It is cancelled later,
-- unless that transaction has ended it.
-- Locks: the row of the batch, and the rows of the messages with SKIP LOCKED, until commit. Uses batch_pkey.
-- Otherwise as _cancel_members.
create or replace function penstock.cancel_batch(batch_id bigint, max_count integer default 10000,
  out cancelled bigint, out more boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  b penstock.batch;
begin
  perform penstock._check_piece(max_count);
  select * into b from penstock.batch t where t.id = cancel_batch.batch_id for update;
  if b.id is null then
    perform penstock._fail_unknown_batch(cancel_batch.batch_id);
  end if;
  update penstock.batch t
  set sealed_at = coalesce(t.sealed_at, clock_timestamp()), cancelled_at = coalesce(t.cancelled_at, clock_timestamp())
  where t.id = b.id and t.finished_at is null;
  cancelled := penstock._cancel_members(b.id, max_count);
  more := exists (select from penstock.batch_member m where m.batch_id = cancel_batch.batch_id and not m.is_dead);
  if more then
    -- _finish_batch keeps this mark until no member is left.
    insert into penstock.batch_change (batch_id) values (b.id);
  end if;
  perform penstock._finish_if_current(b.id);
end $$;

-- Cancels at most max_count of the members that cancel_batch has left in a batch, and returns their number. 0 if it has
-- found no such members, or only members that other transactions have locked. Workers and servers call it until it
-- returns 0, each time in another transaction. It does not wait for open transactions. The batch is chosen at random:
-- one whose members stay locked does not stop the others.
-- Locks until commit: the row of one batch and the rows of the messages, with SKIP LOCKED. Scans batch_change, and
-- otherwise as _cancel_members.
create or replace function penstock.continue_cancels(max_count integer default 10000) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  b         bigint;
  cancelled bigint;
begin
  perform penstock._check_piece(max_count);
  if current_setting('transaction_isolation') <> 'read committed' then
    perform penstock._fail_value('isolation level', current_setting('transaction_isolation'), 'read committed');
  end if;
  select t.id into b from penstock.batch t
  where t.id in (select c.batch_id from penstock.batch_change c where penstock._is_mark(c))
    and t.cancelled_at is not null and t.finished_at is null
  order by random() limit 1 for no key update skip locked;
  if b is null then
    return 0;
  end if;
  cancelled := penstock._cancel_members(b, max_count);
  perform penstock._finish_batch(b);
  return cancelled;
end $$;

-- Cancels members of a batch whose row the caller has locked, and returns their number. It continues with the next
-- max_count members until it has cancelled some of them, for a second at most. Members that are locked, or that need a
-- group token that is locked for longer than 200 ms, are left.
-- Locks: the rows of the messages, with SKIP LOCKED, and the rows of group tokens. Uses batch_member_pkey. Otherwise as
-- cancel, but each segment is scanned once, not once for each message.
create or replace function penstock._cancel_members(batch_id bigint, max_count integer) returns bigint
language plpgsql set lock_timeout = '200ms' as $$
#variable_conflict use_column
declare
  end_at    constant timestamptz := clock_timestamp() + interval '1 second';
  after     bigint := 0;
  cancelled bigint := 0;
  ids       bigint[];
begin
  loop
    ids := array(
      select m.id from penstock.batch_member m
      where m.batch_id = _cancel_members.batch_id and not m.is_dead and m.id > after
      order by m.id limit max_count);
    exit when ids = '{}';
    begin
      cancelled := penstock._remove_many(ids, 'cancelled');
    exception when lock_not_available then
      cancelled := 0;
    end;
    after := ids[cardinality(ids)];
    exit when cancelled > 0 or clock_timestamp() > end_at;
  end loop;
  return cancelled;
end $$;

-- A piece has 1 to 10,000 members.
create or replace function penstock._check_piece(max_count integer) returns void language plpgsql as $$
begin
  if max_count not between 1 and 10000 or max_count is null then
    perform penstock._fail_value('max_count', max_count::text, 'a whole number from 1 to 10000');
  end if;
end $$;
