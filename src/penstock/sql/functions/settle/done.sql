-- A message is done: writes history, and issues the group token of its group. Locks and indexes: as _finish and
-- _issue_group_token.
create or replace function penstock._done(l penstock.leased_0) returns void language plpgsql as $$
begin
  perform penstock._finish(penstock._envelope(l), 'done', null);
  if l.group_key is not null and l.dead_at is null then
    perform penstock._issue_group_token(l.queue_id, l.group_key, l.position);
  end if;
end $$;
