-- Gives the engine a clock that can be stopped and set, for tests. Never use it in a database with data that matters.
-- penstock.testing.Clock then replaces every function and view by one that calls penstock._clock() instead of
-- clock_timestamp(). The register penstock.frozen_at holds what the clock shows, in microseconds; 0 is the real time.
-- Like every register it holds for all sessions at once.
create sequence if not exists penstock.frozen_at minvalue 0;
select setval('penstock.frozen_at', 0);

create or replace function penstock._clock() returns timestamptz language sql volatile
begin atomic
  select case when pg_sequence_last_value('penstock.frozen_at') = 0 then clock_timestamp()
              else timestamptz 'epoch'
                   + make_interval(secs => (pg_sequence_last_value('penstock.frozen_at') / 1000000)::integer)
                   + make_interval(secs => pg_sequence_last_value('penstock.frozen_at') % 1000000 / 1e6) end;
end;

-- Sets the clock to a time, or to the real time (null). Resets the registers that hold times of the clock before.
create or replace function penstock._set_clock(shown_at timestamptz) returns void language plpgsql as $$
declare
  clock    text;
  register regclass;
begin
  perform setval('penstock.frozen_at', coalesce(round(extract(epoch from shown_at) * 1000000)::bigint, 0));
  foreach clock in array array['tick_at', 'ring_check_at', 'upkeep_at', 'lease_floor', 'due_floor', 'timer_rescan_at']
  loop
    perform setval(format('penstock.%I', clock)::regclass, 0);
  end loop;
  for register in select unnest(array[q.sweep_register, q.rescan_register, q.throughput_register])
    from penstock.queue q loop
    perform setval(register, 0) where register is not null;
  end loop;
end $$;

-- The next `penstock migrate up` puts the real functions and views back.
update penstock.migration_code set checksum = 'rewritten by penstock.testing';
