-- Enqueues messages of any queues, all or nothing. messages is an array of up to 10,000 objects with the parameters of
-- penstock.enqueue. Returns the ids in the order given. Locks and indexes: as enqueue.
create or replace function penstock.enqueue_all(messages jsonb) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if messages is null or jsonb_typeof(messages) <> 'array' or jsonb_array_length(messages) > {limit.messages} then
    perform penstock._fail_value('messages', left(messages::text, 100), 'an array of up to {limit.messages} objects');
  end if;
  return query
  select penstock.enqueue(queue => m.queue, payload => m.payload, headers => m.headers, key => m.key,
    priority => coalesce(m.priority, 0), group_key => m.group_key, delay => m.delay, visible_at => m.visible_at,
    ttl => m.ttl, max_attempts => m.max_attempts, on_conflict => coalesce(m.on_conflict, 'replace'),
    unique_while => coalesce(m.unique_while, 'waiting'))
  from penstock._messages_of(messages) m;
end $$;
