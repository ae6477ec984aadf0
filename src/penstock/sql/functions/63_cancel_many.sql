-- Cancels messages that are waiting, leased or dead; those that are not there are passed over. Returns how many.
create or replace function penstock.cancel_many(ids bigint[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if cardinality(ids) > 10000 or ids is null then
    perform penstock._fail_value('ids', cardinality(ids)::text, 'up to 10000 ids');
  end if;
  return (select count(penstock._remove_waiting(wanted.id, 'cancelled')) from (select distinct i as id from unnest(ids) i order by i) wanted);
end $$;
