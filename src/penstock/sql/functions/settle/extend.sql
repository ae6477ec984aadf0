-- extend makes a lease last lease_seconds from now (by default the lease_seconds of the queue). Returns the new end.
-- Locks: the row of the message. Uses leased_N_token, or the place in the token.
create or replace function penstock.extend(id bigint, token bigint, lease_seconds integer default null)
returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  until timestamptz;
begin
  perform penstock._check_lease(lease_seconds);
  until := penstock._prolong(id, token, lease_seconds);
  if until is null then
    perform penstock._fail_lost(id);
  end if;
  return until;
end $$;

-- The same for many. Returns the ids of the leases that were extended, and their new ends. Locks: the rows of the
-- messages, in the order of their tokens, so that two calls cannot deadlock. Indexes: as extend.
create or replace function penstock.extend_many(ids bigint[], tokens bigint[], lease_seconds integer default null)
returns table (id bigint, lease_until timestamptz) language plpgsql security definer set search_path = pg_catalog,
  pg_temp as $$
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  perform penstock._check_lease(lease_seconds);
  for id, lease_until in
      select u.id, penstock._prolong(u.id, u.token, extend_many.lease_seconds) from unnest(ids, tokens) u (id, token)
        order by u.token, u.id loop
    if lease_until is not null then
      return next;
    end if;
  end loop;
end $$;

-- Extends a lease. Returns the new end, or null if the lease is lost. Locks: the row of the message. Uses
-- leased_N_token, or the place in the token, and queue_pkey.
create or replace function penstock._prolong(id bigint, token bigint, lease_seconds integer) returns timestamptz
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  until   timestamptz;
  slot integer;
begin
  slot := {token.segment(_prolong.token)};
  if slot > {ring.last_segment} then
    return null;
  end if;
  -- A message leased in place moves: the new version of a row is not where its token says.
  if {token.is_in_place(_prolong.token)} then
    --: branch on slot
    with gone as (
      delete from penstock.held_{slot} where place = penstock._place(_prolong.token) and token = _prolong.token
        and id = _prolong.id and lease_until > started
      returning {leased})
    insert into penstock.leased_{slot} select * from gone;
    --: end
  end if;
  --: branch on slot
  update penstock.leased_{slot} l
  set lease_until = started + make_interval(secs
    => coalesce(_prolong.lease_seconds, (select q.lease_seconds from penstock.queue q where q.id = l.queue_id)))
  where l.token = _prolong.token and l.id = _prolong.id and l.lease_until > started returning l.lease_until into until;
  --: end
  if until is null and slot <> 0 then
    update penstock.leased_0 l
    set lease_until = started + make_interval(secs
      => coalesce(_prolong.lease_seconds, (select q.lease_seconds from penstock.queue q where q.id = l.queue_id)))
    where l.token = _prolong.token and l.id = _prolong.id and l.lease_until > started returning l.lease_until
      into until;
  end if;
  return until;
end $$;
