-- Makes a lease last lease_seconds from now (the queue's lease_seconds, if none are given). Returns until when.
create or replace function penstock.extend(id bigint, token bigint, lease_seconds integer default null) returns timestamptz
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

create or replace function penstock.extend_many(ids bigint[], tokens bigint[], lease_seconds integer default null)
returns table (id bigint, lease_until timestamptz) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  perform penstock._check_lease(lease_seconds);
  for id, lease_until in
      select u.id, penstock._prolong(u.id, u.token, extend_many.lease_seconds) from unnest(ids, tokens) u (id, token) order by u.token, u.id loop
    if lease_until is not null then
      return next;
    end if;
  end loop;
end $$;

select penstock._unroll($unroll$
create or replace function penstock._prolong(id bigint, token bigint, lease_seconds integer) returns timestamptz language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  until   timestamptz;
  slot integer;
begin
  slot := _prolong.token & 15;
  if slot > 8 then
    return null;
  end if;
  -- What is held in its lane moves: a row that changes is not any more where its token says.
  if _prolong.token >= 4611686018427387904 then
    --[ slot
    with gone as (
      delete from penstock.held_{slot} where place = penstock._place(_prolong.token) and token = _prolong.token and id = _prolong.id and lease_until > started
      returning {leased})
    insert into penstock.leased_{slot} select * from gone;
    --]
  end if;
  --[ slot
  update penstock.leased_{slot} l
  set lease_until = started + make_interval(secs => coalesce(_prolong.lease_seconds, (select q.lease_seconds from penstock.queue q where q.id = l.queue_id)))
  where l.token = _prolong.token and l.id = _prolong.id and l.lease_until > started returning l.lease_until into until;
  --]
  if until is null and slot <> 0 then
    update penstock.leased_0 l
    set lease_until = started + make_interval(secs => coalesce(_prolong.lease_seconds, (select q.lease_seconds from penstock.queue q where q.id = l.queue_id)))
    where l.token = _prolong.token and l.id = _prolong.id and l.lease_until > started returning l.lease_until into until;
  end if;
  return until;
end $$;
$unroll$);
