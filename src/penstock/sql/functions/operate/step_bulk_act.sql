-- One step of an act: up to 500 messages, or as many as its rate allows in a second. Its changes, its counts and the
-- place of the next step are written in one transaction, so a step that is repeated after a crash changes nothing
-- twice.
-- Returns how the act stands, and the seconds to wait before the next step. Locks: the row of the act until commit, and
-- as the verb. Uses bulk_act_pkey, and indexes as browse and the verb.
create or replace function penstock.step_bulk_act(id uuid, out status text, out pause_seconds double precision)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  b       penstock.bulk_act;
  s       penstock.sighting;
  most    integer;
  filter  penstock.sight_filter;
  ids     bigint[] := '{}';
  queues  text[] := '{}';
  did     bigint := 0;
begin
  select * into b from penstock.bulk_act t where t.id = step_bulk_act.id for update;
  if not found or b.status not in ('pending', 'running') then
    status := coalesce(b.status, 'done');
    return;
  end if;
  most := least(500, ceil(b.per_second), b.max_count - b.matched);
  if not b.stop_asked then
    filter := (b.key, b.error, b.worker, b.enqueued_before, b.enqueued_after)::penstock.sight_filter;
    for s in select * from penstock.browse(b.state, b.queues, filter, b.place, most, 10000) loop
      continue when s.id is null or not penstock._is_meant(b, s);
      ids := ids || s.id;
      queues := queues || regexp_replace(s.queue, '\.dlq$', '');
    end loop;
    -- At this point s is the last row.
    if not b.dry_run and cardinality(ids) > 0 then
      did := penstock._bulk_change(b, ids, queues);
    end if;
    b.looked := b.looked + s.looked;
  end if;
  b.matched := b.matched + cardinality(ids);
  b.status := case when b.stop_asked then 'stopped'
    when s.place is null or b.matched >= b.max_count then 'done' else 'running' end;
  update penstock.bulk_act t
  set status = b.status, place = s.place, looked = b.looked, matched = b.matched,
      changed = t.changed + did, updated_at = clock_timestamp(), error_message = null,
      finished_at = case when b.status <> 'running' then clock_timestamp() end
  where t.id = b.id;
  status := b.status;
  pause_seconds := case when b.status = 'running' and not b.dry_run then cardinality(ids) / b.per_second end;
end $$;

-- Whether a message that a step has found is one of the act. Internal queues are, only if they are named. Messages that
-- died or finished after the request are not, and messages that the act has changed are not found again.
create or replace function penstock._is_meant(b penstock.bulk_act, s penstock.sighting) returns boolean
language plpgsql immutable as $$
begin
  return (b.queues is not null or not s.queue ^@ 'penstock.')
    and (b.state not in ('dead', 'finished', 'done', 'expired', 'cancelled', 'superseded') or s.at <= b.created_at)
    and (b.act <> 'move' or regexp_replace(s.queue, '\.dlq$', '') <> b.to_queue)
    and (b.act <> 'set_priority' or s.priority <> b.priority);
end $$;

-- Applies the act to some messages. Returns how many were changed. A message whose payload is larger than its new queue
-- allows is skipped, because the act would find it again in each of its steps. Locks and indexes: as the verb of the
-- act.
create or replace function penstock._bulk_change(b penstock.bulk_act, ids bigint[], queues text[]) returns bigint
language plpgsql as $$
declare
  n    bigint := 0;
  each bigint;
begin
  case b.act
    when 'cancel' then return penstock.cancel_many(ids);
    when 'set_priority' then return penstock.set_priority(ids, b.priority);
    when 'redrive' then
      return (select sum(penstock.redrive(g.queue, g.ids)) from (
        select u.queue, array_agg(u.id) as ids from unnest(ids, queues) u (id, queue) group by u.queue) g);
    when 'move' then
      begin
        return penstock.move(ids, b.to_queue);
      exception when sqlstate {sqlstate.payload_too_large} then
        null;   -- none was moved; one by one, those that fit are
      end;
      foreach each in array ids loop
        begin
          n := n + penstock.move(array[each], b.to_queue);
        exception when sqlstate {sqlstate.payload_too_large} then
          null;
        end;
      end loop;
      return n;
    else
      foreach each in array ids loop
        begin
          perform penstock.replay(each, b.to_queue);
          n := n + 1;
        exception when sqlstate {sqlstate.unknown_message} or sqlstate {sqlstate.cannot_be_replayed}
          or sqlstate {sqlstate.payload_too_large} then
          null;   -- its history was dropped meanwhile, or its queue, or it is too large for the queue
        end;
      end loop;
      return n;
  end case;
end $$;
