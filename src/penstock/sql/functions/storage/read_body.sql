-- Returns the JSON payload (or, as _body_bytes, the bytes) of a message whose body is in a segment, or in the overflow
-- segment if the segment was cleared. Views call both with the owner's rights. Locks: ACCESS SHARE. Uses body_N_id.
--: variant bytes
--:   penstock._body_json => penstock._body_bytes
--:   _body_json.id => _body_bytes.id
--:   jsonb => bytea
--:   b.payload => b.payload_bytes
create or replace function penstock._body_json(slot smallint, id bigint) returns jsonb language plpgsql stable
security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  value jsonb;
begin
  --: branch on slot
  select b.payload into value from penstock.body_{slot} b where b.id = _body_json.id;
  --: end
  if not found then
    select b.payload into value from penstock.body_0 b where b.id = _body_json.id;
  end if;
  return value;
end $$;
