-- Ends an act with an error. Locks: the row of the act. Uses bulk_act_pkey.
create or replace function penstock.fail_bulk_act(id uuid, error_message text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update penstock.bulk_act b set status = 'failed', error_message = fail_bulk_act.error_message,
    updated_at = clock_timestamp(), finished_at = clock_timestamp()
  where b.id = fail_bulk_act.id and b.status in ('pending', 'running');
end $$;
