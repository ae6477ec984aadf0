-- Floors and generations.
--
-- The floor of a lane is the position where claims begin to look. It lets them skip dead rows, which PostgreSQL cannot
-- remove while the MVCC horizon is held back. A floor must never pass a message that is not committed yet.
--
-- Generations guarantee that. A transaction that puts messages into a lane joins the current generation of the queue:
-- it takes a shared advisory lock that PostgreSQL releases once the commit is visible. A statement in autocommit joins
-- before it takes its positions. A transaction block may stay open for hours, so it joins in a deferred trigger just
-- before it commits, and lowers the floor to its first position there: see background/commit_put.sql.
--
-- A sweep begins a new generation about every 5 ms and notes the last position. Once no transaction holds the lock of
-- the generation before, every transaction that took one of those positions has ended, and the floor may rise to the
-- first live message up to there. A generation that is still held after 250 ms (a slow standby, a prepared transaction,
-- a long statement) is set aside: floors rise without it, and every claim checks whether one of its transactions has
-- ended. Then floors are lowered to where that generation began. Only the pace depends on the clock, not the result.
--
-- _sweep: one sweep. It raises the floors to the last position without open transactions, or to the first live message
-- below it, and begins a new generation. A claim does it, at most every 5 ms for each queue, or every 50 ms while
-- nothing is enqueued. At tens of thousands of messages a second, every millisecond that the floor stands still leaves
-- dead index entries for each claim to walk over. The caller must not have claimed from this queue in the same
-- transaction: the sweep would not see those messages, which come back if the transaction is rolled back.
-- Locks: the sweep lock of the queue, without waiting, for the duration of the sweep. Uses lane_N_order.
create or replace function penstock._sweep(q penstock.queue, now_us bigint) returns void language plpgsql as $$
declare
  high       bigint;
  state      bigint;
  generation integer;
  draining   integer;
  aside      integer;
  holders    integer;
  before     integer;
  began_ms   bigint;
  age_ms     bigint;
  idle       boolean;
  ended      boolean := false;
  locked     boolean := false;
begin
  begin
    locked := pg_try_advisory_lock({lock.sweep}, q.id);
    if not locked then
      return;
    end if;
    high := coalesce(pg_sequence_last_value('penstock.position'), 0);   -- before the new generation begins
    state := coalesce(pg_sequence_last_value(q.generation_register), penstock._recall_generations(q.id));
    generation := {generation.current(state)};
    draining := {generation.draining(state)};
    aside := {generation.aside(state)};
    holders := {generation.holders(state)};
    began_ms := {generation.began_ms(state)};
    age_ms := now_us / 1000 - began_ms;
    -- Nothing was enqueued anywhere since this generation began, and all floors are above it: the queue is idle.
    idle := aside = 0 and high = {register.value(q.mark_register)}
      and high < all (select {register.value(f)} from unnest(q.floors) f where f is not null);
    if idle then
      perform setval(q.sweep_register, {sweep.not_quiet(now_us + {timing.idle_sweep})}),
        pg_advisory_unlock({lock.sweep}, q.id);
      return;
    end if;
    if aside = 0 then
      -- Claims during this sweep need not try it: with 64 consumers, half of all tries found the lock taken.
      perform setval(q.sweep_register, {sweep.not_quiet(now_us + {timing.sweep})});
    else
      before := holders;
      holders := penstock._holders(aside, q.id);
      ended := before = {generation.many} or holders < before;
      for i in 0 .. {generation.last} loop
        if {generation.contains(aside, i)} and penstock._has_ended(i, q.id) then
          aside := aside & ~{generation.bit(i)};
        end if;
      end loop;
      if ended then
        perform setval(f, least({register.value(f)}, {register.value(q.settled_register)} + 1))
          from unnest(q.floors) f where f is not null;
      end if;
    end if;
    if draining <> generation and age_ms not between 0 and {timing.generation_ms} then
      ended := penstock._has_ended(draining, q.id);
      if ended and aside = 0 then
        perform setval(q.settled_register, {register.value(q.mark_register)});
      elsif not ended and age_ms not between 0 and {timing.set_aside_ms} then
        -- Counted before floors rise: a transaction that ends after this is missing from the next count.
        holders := least({generation.many}, holders + penstock._holders({generation.bit(draining)}, q.id));
        aside := aside | {generation.bit(draining)};
        ended := true;
      end if;
      if ended then
        perform penstock._raise_floors(q, {register.value(q.mark_register)});
        draining := generation;
      end if;
    end if;
    if draining = generation then
      for i in 1 .. {generation.last} loop
        if {generation.lacks(aside, {generation.after(draining, i)})}
          and penstock._has_ended({generation.after(draining, i)}, q.id) then
          generation := {generation.after(draining, i)};
          began_ms := now_us / 1000;
          perform setval(q.mark_register, high);
          exit;
        end if;
      end loop;
    end if;
    -- In one expression, which cannot be interrupted halfway.
    perform nextval('penstock.flips_begun'),
      setval(q.generation_register, {generation.state(began_ms, holders, aside, draining, generation)}),
        nextval('penstock.flips_over');
    -- While a generation is set aside, every claim checks whether it has ended.
    perform setval(q.sweep_register, case when aside = 0 then {sweep.not_quiet(now_us + {timing.sweep})} else 0 end);
  exception when query_canceled or others then
    if locked then
      perform pg_advisory_unlock({lock.sweep}, q.id);
    end if;
    raise;
  end;
  perform pg_advisory_unlock({lock.sweep}, q.id);
end $$;

-- Raises the floors of a queue to their first live messages, up to a position below which no transaction is open.
-- Locks: none. The caller holds the sweep lock, so no other session sets the floors. Indexes: as
-- _first_live.
create or replace function penstock._raise_floors(q penstock.queue, up_to bigint) returns void language plpgsql as $$
declare
  live    text := {ring.in_use({ring.text})};
  -- messages move to segment 0, so it is looked at last
  slots   text := translate(live, '0', '') || substring(live from '0');
  current text := right(live, 1);
  floor   bigint;
  first   bigint;
  found   bigint;
begin
  slots := coalesce(slots, live);
  for lane in 1 .. cardinality(q.priorities) loop
    continue when q.floors[lane] is null;
    floor := {register.value(q.floors[lane])};
    first := up_to + 1;
    for i in 1 .. length(slots) loop
      found := penstock._first_live(substr(slots, i, 1)::integer, q.id, q.priorities[lane], floor);
      if found is not null and substr(slots, i, 1) <> current then
        found := least(found, penstock._current_from());
      end if;
      first := least(first, found);
    end loop;
    if first > floor then
      perform setval(q.floors[lane], first);
    end if;
  end loop;
end $$;
