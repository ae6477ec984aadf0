-- Checks that ids and a second array, for example tokens, have the same length of at most 10,000.
-- Locks: none. Indexes: none.
create or replace function penstock._check_pairs(ids bigint[], other anyarray, name text) returns void language plpgsql
  as $$
begin
  if ids is null or cardinality(ids) > {limit.messages} then
    perform penstock._fail_value('ids', coalesce(cardinality(ids) || ' ids', null), 'up to {limit.messages} ids');
  elsif other is null or cardinality(other) <> cardinality(ids) then
    perform penstock._fail_value(name, coalesce(cardinality(other) || ' values', null),
      format('one for each of the %s ids', cardinality(ids)));
  end if;
end $$;
