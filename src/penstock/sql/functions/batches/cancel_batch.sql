-- Cancels members of a batch that have not ended, at most max_count of them, and seals it. Returns how many were
-- cancelled, and whether others are left: then call it again, in another transaction. Workers lose the leases of
-- members that they run. Dead letters stay. When no member is left, the batch finishes.
-- Locks: the row of the batch and the rows of the messages until commit. Uses batch_pkey; scans batch_member. Otherwise
-- as cancel, but each segment is scanned once, not once for each message.
create or replace function penstock.cancel_batch(batch_id bigint, max_count integer default 10000,
  out cancelled bigint, out more boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  b   penstock.batch;
  ids bigint[];
begin
  if max_count not between 1 and 10000 or max_count is null then
    perform penstock._fail_value('max_count', max_count::text, 'a whole number from 1 to 10000');
  end if;
  select * into b from penstock.batch t where t.id = cancel_batch.batch_id for update;
  if b.id is null then
    perform penstock._fail_unknown_batch(cancel_batch.batch_id);
  end if;
  update penstock.batch t
  set sealed_at = coalesce(t.sealed_at, clock_timestamp()), cancelled_at = coalesce(t.cancelled_at, clock_timestamp())
  where t.id = b.id and t.finished_at is null;
  ids := array(select m.id from penstock.batch_member m where m.batch_id = cancel_batch.batch_id and not m.is_dead
               order by m.id limit max_count);
  cancelled := penstock._remove_many(ids, 'cancelled');
  more := exists (select from penstock.batch_member m where m.batch_id = cancel_batch.batch_id and not m.is_dead);
  perform penstock._finish_if_current(b.id);
end $$;
