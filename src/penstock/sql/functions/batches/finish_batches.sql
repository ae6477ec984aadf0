-- Adds up the outcomes of the members of batches, and enqueues the messages of each batch whose members have all
-- ended. Returns how many batches have finished. Workers call it after they have settled members, and claims call it
-- about once a minute. Any number of callers may call it at once.
--
-- A batch finishes exactly once. Its row is locked while its changes are added up, so only one caller decides. The
-- changes of a transaction are visible as soon as it has committed, all at once, and are deleted by the caller that
-- adds them up. The messages are enqueued in the transaction that sets finished_at.
--
-- A cancelled batch that has members and no new changes is left out: continue_cancels finishes it. Otherwise many of
-- these batches would take the places of others at each call.
-- Locks until commit: the rows of these batches, with SKIP LOCKED. Uses batch_change_batch, batch_pkey and
-- batch_failing.
create or replace function penstock.finish_batches(max_count integer default 100) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  finished integer := 0;
  b        bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform penstock._fail_value('isolation level', current_setting('transaction_isolation'), 'read committed');
  end if;
  for b in
    select t.id from penstock.batch t where t.id in (
      select c.batch_id from penstock.batch_change c join penstock.batch o on o.id = c.batch_id
        where not penstock._is_mark(c) or o.cancelled_at is null or o.total <= o.done + o.dead + o.expired + o.cancelled
      union select f.id from penstock.batch f where f.finished_at is null and f.last_error is not null)
    order by t.id limit max_count for no key update skip locked
  loop
    finished := finished + penstock._finish_batch(b)::integer;
  end loop;
  return finished;
end $$;

-- Adds up the changes of a batch whose row the caller has locked, and finishes it if all members have ended. True if it
-- has finished now. The mark of cancel_batch stays while members are left.
-- Locks: the row of the batch, which the caller has locked. Uses batch_change_batch and batch_pkey.
create or replace function penstock._finish_batch(batch_id bigint) returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  b         penstock.batch;
  is_marked boolean;
begin
  with gone as (delete from penstock.batch_change c where c.batch_id = _finish_batch.batch_id returning *),
  change as (
    select coalesce(sum(g.added), 0) as added, coalesce(sum(g.done), 0) as done, coalesce(sum(g.dead), 0) as dead,
      coalesce(sum(g.expired), 0) as expired, coalesce(sum(g.cancelled), 0) as cancelled,
      coalesce(bool_or(penstock._is_mark(g)), false) as is_marked
    from gone g)
  update penstock.batch t
  set total = t.total + c.added, done = t.done + c.done, dead = t.dead + c.dead, expired = t.expired + c.expired,
    cancelled = t.cancelled + c.cancelled
  from change c where t.id = _finish_batch.batch_id
  returning c.is_marked into is_marked;
  select * into b from penstock.batch t where t.id = _finish_batch.batch_id;
  if b.sealed_at is null or b.finished_at is not null or b.total > b.done + b.dead + b.expired + b.cancelled then
    if is_marked and b.cancelled_at is not null and b.finished_at is null then
      insert into penstock.batch_change (batch_id) values (b.id);
    end if;
    return false;
  end if;
  begin
    if b.total = b.done then
      perform penstock._enqueue_for_batch(b.id, 'success', b.on_success);
    else
      perform penstock._enqueue_for_batch(b.id, 'failure', b.on_failure);
    end if;
    perform penstock._enqueue_for_batch(b.id, 'finish', b.on_finish);
    update penstock.batch t set finished_at = clock_timestamp(), last_error = null where t.id = b.id;
    return true;
  exception when others then
    -- For example a full queue, or one that was dropped. The next call tries it again.
    update penstock.batch t set last_error = format('%s (%s)', sqlerrm, sqlstate) where t.id = b.id;
    return false;
  end;
end $$;

-- Whether a change only says that the batch has to be looked at again.
create or replace function penstock._is_mark(c penstock.batch_change) returns boolean language sql immutable as $$
  select (c.added, c.done, c.dead, c.expired, c.cancelled) = (0, 0, 0, 0, 0)
$$;

-- Enqueues messages of a batch. Their headers say which batch they are for, and why. The caller does not need the right
-- to enqueue: the caller of create_batch had it. Locks and indexes: as enqueue.
create or replace function penstock._enqueue_for_batch(batch_id bigint, event text, messages jsonb) returns void
language plpgsql as $$
begin
  perform penstock._enqueue_checked(m.queue, m.payload, null, coalesce(m.headers, '{}')
      || jsonb_build_object('penstock-batch', batch_id, 'penstock-batch-event', event), m.key,
    coalesce(m.priority, 0), m.group_key, m.delay, m.visible_at, m.ttl, m.max_attempts,
    coalesce(m.on_conflict, 'replace'), coalesce(m.unique_while, 'waiting'))
  from penstock._messages_of(messages) m;
end $$;

-- Closes a batch: its messages are enqueued when the members that it has now have ended. A batch without members
-- finishes at once. Sealing twice changes nothing. Waits for transactions that add members.
-- Locks: the row of the batch until commit. Uses batch_pkey.
create or replace function penstock.seal_batch(batch_id bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  b penstock.batch;
begin
  select * into b from penstock.batch t where t.id = batch_id for update;
  if b.id is null then
    perform penstock._fail_unknown_batch(batch_id);
  end if;
  if b.sealed_at is null then
    update penstock.batch t set sealed_at = clock_timestamp() where t.id = batch_id;
  end if;
  perform penstock._finish_if_current(batch_id);
end $$;

-- Finishes a batch if all its members have ended. A transaction with an older snapshot does not see members that were
-- added since. It leaves a change, and the next call of finish_batches looks again. Locks: the row of the batch, which
-- the caller has locked. Uses batch_change_batch and batch_pkey.
create or replace function penstock._finish_if_current(batch_id bigint) returns void language plpgsql as $$
begin
  if current_setting('transaction_isolation') = 'read committed' then
    perform penstock._finish_batch(batch_id);
  else
    insert into penstock.batch_change (batch_id) values (_finish_if_current.batch_id);
  end if;
end $$;

-- Deletes batches that finished seven days ago, and the rest of their members. Returns how many.
-- Locks: the rows, with SKIP LOCKED. Uses batch_finished; scans batch_member if one of them had dead letters.
create or replace function penstock._drop_batches(max_count integer) returns integer language plpgsql as $$
declare
  dropped bigint[];
begin
  with gone as (
    delete from penstock.batch where id = any (array(
      select b.id from penstock.batch b where b.finished_at < clock_timestamp() - interval '7 days'
      order by b.finished_at limit max_count for update skip locked)) returning id, dead)
  select array_agg(g.id) filter (where g.dead > 0), count(*) into dropped, max_count from gone g;
  if dropped is not null then
    delete from penstock.batch_member m where m.batch_id = any (dropped);
  end if;
  -- Changes of batches that no longer exist: members that were redriven and ended later.
  delete from penstock.batch_change c where not exists (select from penstock.batch b where b.id = c.batch_id);
  return max_count;
end $$;
