-- Notes that keys are in use. A server calls it a few times a minute with the keys that it has seen since. A key that
-- was noted within five minutes is skipped, so any number of servers write a row once in five minutes. Locks: the rows
-- of the keys that it writes, in the order of their ids. Uses api_key_use_pkey.
create or replace function penstock.note_key_use(ids text[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.api_key_use as u (key_id, used_at)
  select k.id, clock_timestamp() from penstock.api_key k
  where k.id = any (note_key_use.ids) and not exists (
    select from penstock.api_key_use n where n.key_id = k.id and n.used_at > clock_timestamp() - interval '5 minutes')
  order by k.id
  on conflict (key_id) do update set used_at = excluded.used_at;
$$;
