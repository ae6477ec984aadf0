-- reject gives up on a message at once: it is dead, even if it had attempts left. Locks: the row. Uses leased_N_token.
create or replace function penstock.reject(id bigint, token bigint, reason text default null) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  l penstock.leased_0 := penstock._pull(id, token);
begin
  if l.id is null then
    perform penstock._fail_lost(id);
  end if;
  return penstock._give_back(l, reason, interval '0', true, 'wait');
end $$;

-- The same for many. Returns the ids that were rejected, with the states they reached. Locks: the rows of the messages,
-- in the order of their tokens, so that two calls cannot deadlock. Indexes: as reject.
create or replace function penstock.reject_many(ids bigint[], tokens bigint[], reasons text[] default null)
returns table (id bigint, state text) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  u record;
  l penstock.leased_0;
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  perform penstock._check_pairs(ids, coalesce(reasons, array_fill(null::text, array[cardinality(ids)])), 'reasons');
  for u in select * from unnest(ids, tokens, reasons) p (id, token, reason) order by p.token, p.id loop
    l := penstock._pull(u.id, u.token);
    continue when l.id is null;
    id := u.id;
    state := penstock._give_back(l, u.reason, interval '0', true, 'wait');
    return next;
  end loop;
end $$;
