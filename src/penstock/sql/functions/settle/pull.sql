-- Deletes and returns the row of a valid lease, in any table. Returns nothing if the lease is lost.
-- Locks: the row. Uses the place in the token, or leased_N_token.
create or replace function penstock._pull(id bigint, token bigint) returns penstock.leased_0 language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  started timestamptz := clock_timestamp();
  l       penstock.leased_0;
  slot integer;
begin
  slot := {token.segment(_pull.token)};
  if slot > {ring.last_segment} then
    return null;
  end if;
  if {token.is_in_place(_pull.token)} then
    --: branch on slot
    delete from penstock.held_{slot} where place = penstock._place(_pull.token) and token = _pull.token
      and id = _pull.id and lease_until > started
    returning {leased} into l;
    --: end
    if l.id is not null then
      return l;
    end if;
  end if;
  -- Its lease may have been extended, or its segment cleared.
  --: branch on slot
  delete from penstock.leased_{slot} t where t.token = _pull.token and t.id = _pull.id and t.lease_until > started
    returning * into l;
  --: end
  if l.id is null then
    delete from penstock.leased_0 t where t.token = _pull.token and t.id = _pull.id and t.lease_until > started
      returning * into l;
  end if;
  return l;
end $$;
