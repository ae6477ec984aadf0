-- Returns a batch as it is now. state: open, running, cancelling, or finished. Raises PS015 if it does not exist.
-- Locks: none. Uses batch_pkey and batch_change_batch.
create or replace function penstock.get_batch(batch_id bigint)
returns table (id bigint, name text, state text, total bigint, pending bigint, done bigint, dead bigint,
  expired bigint, cancelled bigint, created_at timestamptz, sealed_at timestamptz, finished_at timestamptz,
  last_error text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return query select b.* from penstock.batches b where b.id = batch_id;
  if not found then
    perform penstock._fail_unknown_batch(batch_id);
  end if;
end $$;
