-- Asks an act to stop. It stops before its next step. True if it had not ended. Locks: the row of the act. Uses
-- bulk_act_pkey.
create or replace function penstock.stop_bulk_act(id uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update penstock.bulk_act b set stop_asked = true, updated_at = clock_timestamp()
  where b.id = stop_bulk_act.id and b.status in ('pending', 'running');
  return found;
end $$;
