-- Gives the engine a clock that can be stopped and set: for tests, and never in a database that anybody relies on.
-- Every function and view of the schema is laid down again with penstock._clock() for clock_timestamp(). The register
-- penstock.frozen_at says what the clock shows, in microseconds; 0 is the real time. Like every register it holds for
-- all sessions at once.
create sequence if not exists penstock.frozen_at minvalue 0;
select setval('penstock.frozen_at', 0);

create or replace function penstock._clock() returns timestamptz language sql volatile
begin atomic
  select case when pg_sequence_last_value('penstock.frozen_at') = 0 then clock_timestamp()
              else timestamptz 'epoch' + make_interval(secs => (pg_sequence_last_value('penstock.frozen_at') / 1000000)::integer)
                   + make_interval(secs => pg_sequence_last_value('penstock.frozen_at') % 1000000 / 1e6) end;
end;

do $rewrite$
declare
  f record;
begin
  for f in select p.oid, pg_get_functiondef(p.oid) as text from pg_proc p
           where p.pronamespace = 'penstock'::regnamespace and p.prokind = 'f' and p.proname <> '_clock' loop
    if f.text like '%clock_timestamp()%' then
      execute replace(f.text, 'clock_timestamp()', 'penstock._clock()');
    end if;
  end loop;
  for f in select c.oid, c.relname as name, pg_get_viewdef(c.oid) as text from pg_class c
           where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'v' loop
    if f.text like '%clock_timestamp()%' then
      execute format('create or replace view penstock.%I as %s', f.name, replace(f.text, 'clock_timestamp()', 'penstock._clock()'));
    end if;
  end loop;
end $rewrite$;

-- The clock shows a time, or the real one (null). What the engine measured by the old one is forgotten: when it looked
-- last, how far it got, what a throughput limit has left.
create or replace function penstock._set_clock(shown_at timestamptz) returns void language plpgsql as $$
declare
  clock    text;
  register regclass;
begin
  perform setval('penstock.frozen_at', coalesce(round(extract(epoch from shown_at) * 1000000)::bigint, 0));
  foreach clock in array array['tick_at', 'ring_check_at', 'upkeep_at', 'lease_floor', 'due_floor', 'timer_rescan_at'] loop
    perform setval(format('penstock.%I', clock)::regclass, 0);
  end loop;
  for register in select unnest(array[q.sweep_register, q.rescan_register, q.throughput_register]) from penstock.queue q loop
    perform setval(register, 0) where register is not null;
  end loop;
end $$;

-- The next `penstock migrate up` lays the functions and views down as they should be.
update penstock.migration_code set checksum = 'rewritten by penstock.testing';
