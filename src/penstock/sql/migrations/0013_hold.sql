-- Messages claimed where they are. A claim of the usual kind does not move its messages to leased_N any more: it marks
-- them in their lane, which writes half as much. So ready_N becomes lane_N, of which ready_N and held_N are views: see
-- functions/02_lanes.sql. What waits is written anew, as what a claim changes has to stand in front: then the log gets
-- that, and not the message once more.
do $lanes$
declare
  storage text;
  columns text := (select string_agg(a.attname, ', ' order by a.attnum) from pg_attribute a
                   where a.attrelid = 'penstock.envelope'::regclass and a.attnum > 0 and not a.attisdropped);
begin
  for slot in 0..8 loop
    execute format('alter table penstock.ready_%1$s rename to waited_%1$s', slot);
    storage := case when slot = 0 then '' else ', autovacuum_enabled = off, toast.autovacuum_enabled = off' end;
    -- hold: 0 while the message is ready; else until when it is held: see functions/02_lanes.sql. Half of
    -- each page is left for the marked rows: as long as they fit there, no index is touched by a claim.
    execute format('create table penstock.lane_%s (position bigint not null, hold bigint not null default 0, like penstock.envelope)
                      with (fillfactor = 50%s)', slot, storage);
    execute format('insert into penstock.lane_%1$s (position, %2$s) select position, %2$s from penstock.waited_%1$s order by position', slot, columns);
    execute format('create index lane_%1$s_order on penstock.lane_%1$s (queue_id, priority, position)', slot);
    execute format('create index lane_%1$s_key on penstock.lane_%1$s (queue_id, key) where key is not null', slot);
    execute format('create index lane_%1$s_expiry on penstock.lane_%1$s (expires_at) where expires_at is not null', slot);
    execute format('create index lane_%1$s_back on penstock.lane_%1$s (id) where position <> id', slot);
    -- One row for each claim: who holds, and when to look whether some of what it holds is still there. It goes when it was
    -- looked at, or with its segment.
    execute format('create table penstock.grant_%s (lease_until timestamptz not null, hold bigint not null, claimed_at timestamptz not null, first_position bigint not null,
                      last_position bigint not null, queue_id integer not null, priority smallint not null, worker text) %s',
                   slot, case when slot = 0 then '' else 'with (autovacuum_enabled = off, toast.autovacuum_enabled = off)' end);
    execute format('create index grant_%1$s_until on penstock.grant_%1$s (lease_until)', slot);
    -- Views are made of it, and yours of them: it goes when they are made of the lanes, in views/90_waited.sql.
    execute format('truncate penstock.waited_%s', slot);
  end loop;
end $lanes$;

-- Its place is taken by _locate_in_lane, which finds what is held as well.
drop function if exists penstock._locate_fresh(bigint);
-- These have a parameter more.
drop function if exists penstock._claim_special(text, integer, integer, text);
drop function if exists penstock._claim_special_by_id(text, integer, integer, text);
drop function if exists penstock._look_again(penstock.queue, integer);
