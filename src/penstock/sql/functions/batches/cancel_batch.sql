-- Cancels members of a batch that have not ended, at most max_count of them, and seals it. Returns how many were
-- cancelled, and whether others are left. Workers and servers cancel the others soon: see continue_cancels. Call it
-- again, in another transaction, to cancel them sooner. Workers lose the leases of members that they run. Dead letters
-- stay. When no member is left, the batch finishes.
-- Locks: the row of the batch and the rows of the messages until commit. Uses batch_pkey; scans batch_member. Otherwise
-- as cancel, but each segment is scanned once, not once for each message.
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

-- Cancels at most max_count of the members that cancel_batch has left in a batch, and returns their number. 0 if no
-- batch has such members now. Workers and servers call it until it returns 0, each time in another transaction.
-- Locks: the row of the batch, with SKIP LOCKED, and the rows of the messages until commit. Scans batch_change, and
-- otherwise as cancel_batch.
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
  for b in
    select t.id from penstock.batch t
    where t.id in (select c.batch_id from penstock.batch_change c where penstock._is_mark(c))
      and t.cancelled_at is not null and t.finished_at is null
    order by t.id for no key update skip locked
  loop
    cancelled := penstock._cancel_members(b, max_count);
    perform penstock._finish_batch(b);
    if cancelled > 0 then
      return cancelled;
    end if;
  end loop;
  return 0;
end $$;

-- Cancels members of a batch whose row the caller has locked, and returns their number. Locks and indexes: as
-- cancel_batch.
create or replace function penstock._cancel_members(batch_id bigint, max_count integer) returns bigint
language plpgsql as $$
#variable_conflict use_column
begin
  return penstock._remove_many(array(
    select m.id from penstock.batch_member m where m.batch_id = _cancel_members.batch_id and not m.is_dead
    order by m.id limit max_count), 'cancelled');
end $$;

-- A piece has 1 to 10,000 members.
create or replace function penstock._check_piece(max_count integer) returns void language plpgsql as $$
begin
  if max_count not between 1 and 10000 or max_count is null then
    perform penstock._fail_value('max_count', max_count::text, 'a whole number from 1 to 10000');
  end if;
end $$;
