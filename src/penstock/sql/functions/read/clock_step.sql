-- Returns the number of microseconds by which the clock was set back, or 0. The registers show it until a claim has
-- corrected them. Steps of up to a second are ignored, because ticks are set 50 ms ahead. Floors of timers are never
-- ahead. Locks: none. Indexes: none.
create or replace function penstock._step_us(now_us bigint) returns bigint language sql volatile as $$
  select case when s.us > {timing.least_step} then s.us else 0 end
  from (select greatest({register.value('penstock.tick_at')} - {timing.tick},
                        {register.value('penstock.upkeep_at')} - {timing.upkeep},
                        {register.value('penstock.due_floor')},
                        {register.value('penstock.lease_floor')}) - now_us as us) s
$$;

-- The same in seconds, for `penstock doctor`.
create or replace function penstock.clock_step() returns double precision language sql security definer
set search_path = pg_catalog, pg_temp as $$
  select penstock._step_us((date_part('epoch', clock_timestamp()) * 1e6)::bigint) / 1e6
$$;
