-- These have other parameters.
drop function if exists penstock._look_again(integer, integer, boolean, boolean);
drop function if exists penstock._commit_timers();
drop function if exists penstock._is_oversized(text);

create sequence penstock.ring_turned_at minvalue 0;   -- when the current segment was taken, in microseconds
select setval('penstock.ring_turned_at', 0);
