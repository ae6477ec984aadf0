-- snooze gives a message back without counting the attempt: now, or after a delay. Locks: the row. Uses leased_N_token.
create or replace function penstock.snooze(id bigint, token bigint, delay interval default '0') returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  l penstock.leased_0;
begin
  perform penstock._check_delay(delay);
  l := penstock._pull(id, token);
  if l.id is null then
    perform penstock._fail_lost(id);
  end if;
  return penstock._put_off(l, delay);
end $$;

-- The same for many. Returns the ids that were given back, with the states they reached. Locks: the rows of the
-- messages, in the order of their tokens, so that two calls cannot deadlock. Indexes: as snooze.
create or replace function penstock.snooze_many(ids bigint[], tokens bigint[], delays interval[] default null)
returns table (id bigint, state text) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  u record;
  l penstock.leased_0;
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  perform penstock._check_pairs(ids, coalesce(delays, array_fill(null::interval, array[cardinality(ids)])), 'delays');
  perform penstock._check_delay(d) from unnest(delays) d;
  for u in select * from unnest(ids, tokens, delays) p (id, token, delay) order by p.token, p.id loop
    l := penstock._pull(u.id, u.token);
    continue when l.id is null;
    id := u.id;
    state := penstock._put_off(l, u.delay);
    return next;
  end loop;
end $$;

-- Puts a message back without counting the attempt. Returns the state it reached. Locks: as _yield_key and _place. Uses
-- queue_pkey.
create or replace function penstock._put_off(l penstock.leased_0, delay interval) returns text language plpgsql as $$
declare
  q     penstock.queue;
  m     penstock.envelope;
  state text;
begin
  l.attempt := l.attempt - 1;
  m := penstock._envelope(l);
  if l.dead_at is not null then
    insert into penstock.dead select (m).*;
    return 'dead';
  end if;
  select * into q from penstock.queue t where t.id = l.queue_id;
  if m.expires_at <= clock_timestamp() then
    state := 'expired';
  elsif m.key is not null then
    state := penstock._yield_key(m, 'wait');
  end if;
  state := coalesce(state, case when delay > interval '0' then 'scheduled' else 'ready' end);
  perform penstock._place(q, m, state, case when delay > interval '0' then clock_timestamp() + delay end, l.position);
  return state;
end $$;
