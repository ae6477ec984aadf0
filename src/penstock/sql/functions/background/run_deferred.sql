-- The deferred trigger of deferred_N: does the work that a row announces, when its transaction commits. A transaction
-- block may stay open for hours. Work that would make others wait, or hide messages from them, is left to this moment.
-- Each kind of work is announced once for each transaction and lane: ten thousand messages cost one row and one trigger
-- call.
-- Locks and indexes: see the function for each kind.
create or replace function penstock._run_deferred() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  perform penstock._forget_announcements();
  case new.kind
    when 'put' then perform penstock._commit_put(new.queue_id, new.priority, new.position);
    when 'join' then perform penstock._commit_joins(new.position);
    when 'end group' then perform penstock._issue_group_token(new.queue_id, new.group_key, new.position,
      at_commit => true);
    when 'leased' then
      -- _commit_timers asks this too. Asking here saves new sessions from compiling it.
      if penstock._is_long() then
        perform penstock._commit_timers(new.queue_id);
      end if;
    when 'scheduled' then
      perform penstock._commit_timers();
      perform penstock._wake_waiters(q, to_timestamp(new.position / 1e6)) from penstock.queue q
        where q.id = new.queue_id;
    else perform penstock._commit_upkeep();
  end case;
  return null;
end $$;
