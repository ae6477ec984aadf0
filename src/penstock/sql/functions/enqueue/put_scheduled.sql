-- Schedules a message, or a group token, for later. Locks: only the new row. Indexes: none.
create or replace function penstock._put_scheduled(due timestamptz, m penstock.envelope) returns void language plpgsql
  as $$
begin
  insert into penstock.scheduled select due, (m).*;
  if penstock._in_block() then
    -- Messages that are due soon wake waiters, and are announced separately.
    perform penstock._announce(case when due < clock_timestamp() + interval '10 seconds' then 'soon '
      else 'later ' end || m.queue_id, 'scheduled', m.queue_id, at_position => (date_part('epoch', due) * 1e6)::bigint);
  end if;
end $$;
