-- nack gives a message back with an error. It is tried again after a delay (by default the backoff of the queue), or it
-- is dead if that was its last attempt. Returns the state it reached. Locks: the row of the message. Uses
-- leased_N_token.
create or replace function penstock.nack(id bigint, token bigint, error text default null, delay interval default null)
returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  l penstock.leased_0;
begin
  perform penstock._check_delay(delay);
  l := penstock._pull(id, token);
  if l.id is null then
    perform penstock._fail_lost(id);
  end if;
  return penstock._give_back(l, error, delay, false, 'wait');
end $$;

-- The same for many. Returns the ids that were given back, with the states they reached. Locks: the rows of the
-- messages, in the order of their tokens, so that two calls cannot deadlock. Indexes: as nack.
create or replace function penstock.nack_many(ids bigint[], tokens bigint[], errors text[] default null,
  delays interval[] default null)
returns table (id bigint, state text) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  u record;
  l penstock.leased_0;
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  perform penstock._check_pairs(ids, coalesce(errors, array_fill(null::text, array[cardinality(ids)])), 'errors');
  perform penstock._check_pairs(ids, coalesce(delays, array_fill(null::interval, array[cardinality(ids)])), 'delays');
  perform penstock._check_delay(d) from unnest(delays) d;
  for u in select * from unnest(ids, tokens, errors, delays) p (id, token, error, delay) order by p.token, p.id loop
    l := penstock._pull(u.id, u.token);
    continue when l.id is null;
    id := u.id;
    state := penstock._give_back(l, u.error, u.delay, false, 'wait');
    return next;
  end loop;
end $$;
