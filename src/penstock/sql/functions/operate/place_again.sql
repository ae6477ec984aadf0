-- Puts a message that was taken out of its table back: into its group, the schedule or the current segment of a queue.
-- reserve: it is new in the queue, so it counts for max_depth, and its key may be in use there. Locks: those of _widen,
-- _reserve_depth and _yield_key, and the new row. Indexes: as these functions.
create or replace function penstock._place_again(q penstock.queue, m penstock.envelope, due timestamptz,
  reserve boolean) returns void language plpgsql as $$
declare
  state text;
begin
  if m.priority <> all (q.priorities) or q.plain and (m.expires_at is not null or m.group_key is not null) then
    perform penstock._widen(q, penstock._lane_bits(m.priority, m.expires_at is null and m.group_key is null));
  end if;
  if reserve and q.max_depth is not null then
    perform penstock._reserve_depth(q, 1);
  end if;
  if reserve and m.key is not null then
    state := penstock._yield_key(m, 'wait');
  end if;
  if state is not null then
    perform penstock._finish(m, state, null);
  elsif m.group_key is not null then
    perform penstock._rejoin_group(m, due);
  elsif due is not null then
    perform penstock._put_scheduled(due, m);
  else
    perform penstock._put_ready(m, nextval('penstock.position'));
  end if;
end $$;
