-- Claims for callers that settle by id alone, as the contracts of others do: the same claim, but its messages always move to
-- leased_N, and its tokens are negative, by which the index leased_N_id tells these leases from the rest. A token's lowest
-- bits mean what they always do.
--
-- Made from the text of the claim itself, at the moment the functions are laid down: what is true of one claim is true of
-- the other, and no claim pays for a parameter that most never use.
create or replace function penstock._derive_by_id(source regprocedure) returns void language plpgsql as $$
declare
  numbers constant text := '(penstock\._lease_number\(\)|\(nextval\(''penstock\.lease_number''\)[^\n]*?\* 32)';
  derived text := pg_get_functiondef(source);
begin
  if derived !~ numbers then
    raise exception 'penstock._derive_by_id: % does not number its leases by penstock._lease_number()', source;
  end if;
  derived := regexp_replace(derived, numbers, '\1 + bigint ''-9223372036854775808''', 'g');
  derived := replace(derived, 'moves       boolean := claim.count < 16', 'moves boolean := true');
  derived := regexp_replace(derived, '\m_?(claim|claim_special|claim_dead)\M(?=[.(])', '_\1_by_id', 'g');
  execute derived;
end $$;

-- The last first: each is there before the one that calls it is run.
select penstock._derive_by_id('penstock._claim_dead(text, integer, integer, text)'),
       penstock._derive_by_id('penstock._claim_special(text, integer, integer, text, boolean)'),
       penstock._derive_by_id('penstock.claim(text, integer, integer, text)');
