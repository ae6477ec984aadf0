-- Returns a page of the messages in one state, along an index, starting where the previous page ended. The work is
-- bounded: it ends after `look` messages, even if the page is not full. The last row has no id. It has the number of
-- messages that were examined, and in `place` the position to continue from, or null at the end.
--
-- queues: the queues to read, or null for all. The tables of a state that is spread over several tables are read one
-- after the other. Locks: ACCESS SHARE. Indexes: see the functions _browse_*.
create or replace function penstock.browse(state text, queues text[] default null,
  filter penstock.sight_filter default null, place text default null,
                                           page integer default 50, look integer default 10000)
returns setof penstock.sighting language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  parts constant text[] := case
    when state = 'ready' and filter.key is not null then array['ready with key', 'lapsed']
    when state = 'ready' then array['lanes', 'due', 'due in groups', 'lapsed']
    when state = 'scheduled' and filter.key is not null then array['scheduled with key']
    when state = 'scheduled' then array['delayed', 'delayed in groups']
    when state = 'leased' then array['leased']
    when state = 'dead' then array['dead', 'dead and claimed']
    when state in ('finished', 'done', 'expired', 'cancelled', 'superseded') then array['finished'] end;
  part   text := coalesce(split_part(place, '/', 1), parts[1]);
  inside text := nullif(substr(place, strpos(place, '/') + 1), '');
  ids    integer[];
  seen   integer := 0;
  s      penstock.sighting;
begin
  if parts is null then
    perform penstock._fail_value('state', state,
      'ready, scheduled, leased, dead, finished, done, expired, cancelled or superseded');
  elsif page not between 1 and {limit.messages} or page is null then
    perform penstock._fail_value('page', page::text, '1 to {limit.messages}');
  elsif look not between 1 and 1000000 or look is null then
    perform penstock._fail_value('look', look::text, '1 to 1000000');
  elsif part <> all (parts) then
    perform penstock._fail_value('place', place, 'the place in the last row of the previous page');
  end if;
  ids := (select array_agg(q.id) from penstock.queue q where q.name = any (queues));
  for i in array_position(parts, part) .. cardinality(parts) loop
    part := parts[i];
    for s in select * from penstock._browse(part, state, queues, ids, filter, inside, page, look) loop
      if s.id is not null then
        s.place := part || '/' || s.place;
        page := page - 1;
        return next s;
      end if;
    end loop;
    -- At this point s is the last row.
    seen := seen + s.looked;
    look := look - s.looked;
    inside := s.place;
    exit when inside is not null;
    if (page = 0 or look <= 0) and i < cardinality(parts) then
      part := parts[i + 1];
      inside := '';
      exit;
    end if;
  end loop;
  s := null;
  s.looked := seen;
  s.place := part || '/' || inside;
  return next s;
exception when invalid_text_representation or datetime_field_overflow or invalid_datetime_format
  or numeric_value_out_of_range then
  perform penstock._fail_value('place', place, 'the place in the last row of the previous page');
end $$;

-- Reads one table of a state. Locks: ACCESS SHARE.
create or replace function penstock._browse(part text, state text, queues text[], ids integer[],
  filter penstock.sight_filter, place text, page integer, look integer)
returns setof penstock.sighting language plpgsql stable as $$
begin
  case part
    when 'ready with key', 'scheduled with key' then return query select *
      from penstock._browse_keys(state, queues, filter, place, page, look);
    when 'lanes' then return query select * from penstock._browse_lanes(queues, filter, place, page, look);
    when 'due', 'delayed' then return query select *
      from penstock._browse_delays(part = 'due', ids, queues is null, filter, place, page, look);
    when 'due in groups', 'delayed in groups' then return query select *
      from penstock._browse_groups(part = 'due in groups', queues, filter, place, page, look);
    when 'leased', 'lapsed', 'dead and claimed' then return query select *
      from penstock._browse_leases(part, ids, queues is null, filter, place, page, look);
    when 'dead' then return query select * from penstock._browse_dead(ids, queues is null, filter, place, page, look);
    when 'finished' then return query select * from penstock._browse_history(nullif(state, 'finished'), queues, filter,
      place, page, look);
  end case;
end $$;
