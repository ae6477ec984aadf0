-- Moves up to 1,000 messages that are left in a segment to the overflow segment. A row moves there at most once, and
-- only from a segment that is nearly empty: a backlog stays where it is. Locks: the rows it moves; it skips locked
-- rows. No index.
create or replace function penstock._clear_oldest(slot integer) returns void language plpgsql as $$
#variable_conflict use_column
declare
  piece constant integer := 1000;
  ring  text := {ring.text};
  late  tid := penstock._late_block('lane_' || slot, 800);
begin
  --: branch on slot
  if (select count(*) from (select from penstock.lane_{slot} where ctid >= late and hold = 0
    limit 4 * piece + 1) s) > 4 * piece
     or (select count(*) from (select from penstock.ready_{slot} limit 4 * piece + 1) s) > 4 * piece then
    return;
  end if;
  if strpos({ring.in_use(ring)}, '0') = 0 then
    perform setval('penstock.ring', {ring.with_overflow(ring)});
  end if;
  with gone as (
    delete from penstock.lane_{slot} where ctid = any (array(select ctid from penstock.lane_{slot} where hold = 0
      limit piece for update skip locked))
    returning position, {envelope})
  insert into penstock.ready_0 select * from gone;
  with gone as (
    delete from penstock.held_{slot} where place = any (array(
      select place from penstock.held_{slot} where claimed_at < clock_timestamp() - interval '1 second' limit piece
        for update skip locked)) returning {leased})
  insert into penstock.leased_0 select * from gone;
  with gone as (
    delete from penstock.leased_{slot} where ctid
      = any (array(select ctid from penstock.leased_{slot} limit piece for update skip locked)) returning *)
  insert into penstock.leased_0 select * from gone;
  with gone as (
    delete from penstock.body_{slot} where ctid = any (array(select ctid from penstock.body_{slot} limit piece / 10
      for update skip locked)) returning *)
  insert into penstock.body_0 select * from gone;
  --: end
end $$;
