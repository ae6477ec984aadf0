-- At commit: the upkeep that a claim has found to be due. An error here must not undo the claim, so it is logged. A
-- transaction with an old snapshot does nothing: it may not change rows that others have changed since.
-- Locks and indexes: as _run_timers, _tend_ring and _upkeep.
create or replace function penstock._commit_upkeep() returns void language plpgsql as $$
declare
  now_us bigint := date_part('epoch', clock_timestamp()) * 1e6;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return;
  end if;
  perform penstock._redate();
  perform penstock._run_timers(null, 500);
  perform penstock._tend_ring();
  perform penstock._adopt_lanes();
  if penstock._is_due('penstock.upkeep_at', now_us, {timing.upkeep_ahead}) then
    perform setval('penstock.upkeep_at', now_us + {timing.upkeep});
    perform penstock._upkeep();
  end if;
exception when others then
  raise log 'penstock upkeep: % (%)', sqlerrm, sqlstate;
end $$;
