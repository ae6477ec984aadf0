-- held_leases returns the ids whose leases are still held: not settled, not expired, and not lost to another claim.
-- Locks: none. Uses leased_N_token, or the place in the token.
create or replace function penstock.held_leases(ids bigint[], tokens bigint[]) returns setof bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  u       record;
  slot    integer;
  is_held boolean;
begin
  perform penstock._check_pairs(ids, tokens, 'tokens');
  for u in select * from unnest(ids, tokens) p (id, token) order by p.token, p.id loop
    slot := {token.segment(u.token)};
    continue when slot > {ring.last_segment};
    is_held := false;
    if {token.is_in_place(u.token)} then
      --: branch on slot
      is_held := exists (
        select from penstock.held_{slot} h where h.place = penstock._place(u.token) and h.token = u.token
          and h.id = u.id and h.lease_until > clock_timestamp());
      --: end
    end if;
    if not is_held then
      --: branch on slot
      is_held := exists (select from penstock.leased_{slot} l where l.token = u.token and l.id = u.id
        and l.lease_until > clock_timestamp());
      --: end
    end if;
    if not is_held and slot <> 0 then
      is_held := exists (select from penstock.leased_0 l where l.token = u.token and l.id = u.id
        and l.lease_until > clock_timestamp());
    end if;
    if is_held then
      return next u.id;
    end if;
  end loop;
end $$;
