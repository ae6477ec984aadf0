-- By how many microseconds the clock was set back, as far as registers that no claim has corrected yet can tell; else
-- 0. A step of up to a second is ignored. Ticks are set 50 ms ahead, floors of timers never. Locks: none. Indexes:
-- none.
create or replace function penstock._step_us(now_us bigint) returns bigint language sql volatile as $$
  select case when s.us > 1000000 then s.us else 0 end
  from (select greatest(pg_sequence_last_value('penstock.tick_at') - 50000,
                        pg_sequence_last_value('penstock.upkeep_at') - 60000000,
                        pg_sequence_last_value('penstock.due_floor'),
                        pg_sequence_last_value('penstock.lease_floor')) - now_us as us) s
$$;

-- The same in seconds, for `penstock doctor`.
create or replace function penstock.clock_step() returns double precision language sql security definer
set search_path = pg_catalog, pg_temp as $$
  select penstock._step_us((date_part('epoch', clock_timestamp()) * 1e6)::bigint) / 1e6
$$;
