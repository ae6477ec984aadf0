-- get_batch_members returns the ids of the members of a batch that have not ended, or of those that are dead letters,
-- in their order, beginning after an id. Other members have left the table. Locks: none. Scans batch_member along
-- batch_member_pkey.
create or replace function penstock.get_batch_members(batch_id bigint, is_dead boolean default false,
  "after" bigint default 0, max_count integer default 100)
returns setof bigint language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform penstock._check_piece(max_count);
  return query select m.id from penstock.batch_member m
  where m.batch_id = get_batch_members.batch_id and m.is_dead = get_batch_members.is_dead
    and m.id > get_batch_members."after"
  order by m.id limit max_count;
end $$;
