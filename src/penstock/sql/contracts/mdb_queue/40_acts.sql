-- INSERT, UPDATE and DELETE on mdb_queue.messages, with the meaning that the contract gives them. Locks: the rows of
-- the messages, as claim, ack, nack and extend. Settling by id and claimed_by uses leased_N_id.

-- Returns the LIMIT if a text is the claim of the contract: a number, '' if it is a parameter, or null if the text is
-- any other statement. The text must consist of the UPDATE and the SELECT of ids with exactly its three conditions, and
-- must not name the table elsewhere. The columns that are set and returned may be anything. Locks: none. Indexes: none.
create or replace function mdb_queue._is_claim(statement text) returns text language plpgsql immutable as $$
declare
  form constant text :=
    '\mupdate\s+(?:only\s+)?"?mdb_queue"?\."?messages"?\s.*?\mwhere\s+(?:\w+\.)?id\s+in\s*\('
    '\s*select\s+(?:\w+\.)?id\s+from\s+"?mdb_queue"?\."?messages"?(?:\s+(?:as\s+)?\w+)??'
    '\s+where\s+(?:\w+\.)?queue_name\s*=\s*(?:''(?:[^'']|'''')*''|\$\d+)(?:::\w+)?'
    '\s+and\s+(?:\w+\.)?visible_at\s*<=\s*now\(\)'
    '\s+and\s+(?:\w+\.)?attempt_count\s*<\s*(?:\w+\.)?max_attempts'
    '\s+order\s+by\s+(?:\w+\.)?id'
    '\s+(?:for\s+update\s+skip\s+locked\s+limit\s+(\d+|\$\d+)(?:::\w+)?'
      '|limit\s+(\d+|\$\d+)(?:::\w+)?\s+for\s+update\s+skip\s+locked)'
    '\s*\)\s*(?:returning\M|;|\)|$)';
  found text[];
begin
  if regexp_count(statement, 'mdb_queue"?\."?messages', 1, 'i') <> 2 then
    return null;
  end if;
  found := regexp_match(statement, form, 'i');
  if found is null then
    return null;
  end if;
  return case when coalesce(found[1], found[2]) ^@ '$' then '' else coalesce(found[1], found[2]) end;
end $$;

-- Runs before each statement on the view: notes the kind of the statement in settings. Locks: none. Indexes: none.
create or replace function mdb_queue._begin() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  act    text := lower(tg_op);
  wanted text;
begin
  if tg_op = 'UPDATE' then
    -- The text of the last claim is stored, because it is probably the text of the next one too.
    if current_setting('mdb_queue.claim_text', true) = current_query() then
      act := current_setting('mdb_queue.claim_act');
    else
      wanted := mdb_queue._is_claim(current_query());
      if wanted is not null then
        act := 'claim ' || wanted;
        wanted := set_config('mdb_queue.claim_text', current_query(), false)
          || set_config('mdb_queue.claim_act', act, false);
      end if;
    end if;
  end if;
  act := set_config('mdb_queue.act', act, true) || set_config('mdb_queue.lane', '', true)
    || set_config('mdb_queue.held', '', true)
    || set_config('mdb_queue.given', '0', true) || set_config('mdb_queue.taken', '0', true)
      || set_config('mdb_queue.terms', '', true);
  return null;
end $$;

-- Runs for each row of an UPDATE. For a claim, it only notes the terms of the lease and counts the row, because _rows
-- has claimed it already. Any other UPDATE changes one message: see _update_one. Locks and indexes: as _rows and
-- _update_one.
create or replace function mdb_queue._update() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  terms text;
begin
  if current_setting('mdb_queue.act') ^@ 'claim' then
    -- This statement has claimed the row. Normally the terms are the same for all rows.
    terms := date_part('epoch', new.visible_at) || ' ' || coalesce(new.claimed_by, '');
    if current_setting('mdb_queue.terms') <> terms then
      if current_setting('mdb_queue.terms') <> '' then
        perform penstock._fail_value('visible_at, claimed_by', new.visible_at || ', ' || new.claimed_by,
          'the same for all messages of a claim');
      end if;
      terms := set_config('mdb_queue.terms', terms, true);
    end if;
    terms := set_config('mdb_queue.taken', (current_setting('mdb_queue.taken')::integer + 1)::text, true);
    return new;
  end if;
  return mdb_queue._update_one(old, new);
end $$;

-- Ends a claim. There is nothing left to do if it took all messages that it was given, with the predicted lease and
-- holder. Locks: as _settle_claim. Indexes: as _settle_claim.
create or replace function mdb_queue._end() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  act   text := current_setting('mdb_queue.act');
  terms text := current_setting('mdb_queue.terms');
begin
  if act ^@ 'claim' and current_setting('mdb_queue.given') <> '0'
     and (act = 'claim ' or current_setting('mdb_queue.given') <> current_setting('mdb_queue.taken')
          or substr(terms, strpos(terms, ' ') + 1) <> coalesce(current_setting('mdb_queue.worker', true), '')
          or abs(split_part(terms, ' ', 1)::double precision - date_part('epoch', clock_timestamp())
                 - coalesce(mdb_queue._setting('lease'), '30')::integer) >= 1) then
    perform mdb_queue._settle_claim(string_to_array(current_setting('mdb_queue.held'), ' ')::bigint[],
      current_setting('mdb_queue.given')::integer, current_setting('mdb_queue.taken')::integer, terms);
  end if;
  act := set_config('mdb_queue.act', '', true) || set_config('mdb_queue.lane', '', true);
  return null;
end $$;

-- Gives the messages that a claim took their terms, if the prediction was wrong, and gives the other messages back.
-- Locks: the leased rows. Uses leased_N_token.
create or replace function mdb_queue._settle_claim(tokens bigint[], given integer, taken integer, terms text)
returns void language plpgsql as $$
declare
  until  timestamptz;
  holder text;
begin
  -- The tokens come from a setting, which a caller may change while its statement runs. Negative tokens belong to
  -- claims by id, which every consumer may change. All others belong to their holders.
  tokens := array(select t from unnest(tokens) t where t < 0);
  if given > taken then
    perform penstock._unclaim(l.token, array_agg(l.id))
    from (select l.token, l.id from unnest(tokens) t cross join penstock._leases_of(t) l order by l.id offset taken) l
      group by l.token;
  end if;
  if taken = 0 then
    -- The planner searched for the rows to update first and found none. No such plan is known. If it happens, the
    -- claims of this session use the slow path from now on.
    perform set_config('mdb_queue.claim_act', 'update', false);
    return;
  end if;
  until := to_timestamp(split_part(terms, ' ', 1)::double precision);
  holder := nullif(substr(terms, strpos(terms, ' ') + 1), '');
  if holder is distinct from mdb_queue._setting('worker')
     or abs(date_part('epoch', until - clock_timestamp()) - coalesce(mdb_queue._setting('lease'), '30')::integer) >= 1
       then
    perform penstock._amend_claim(t, until, holder) from unnest(tokens) t;
  end if;
  perform mdb_queue._guess(taken, given, date_part('epoch', until - now()), holder);
end $$;

-- Predicts the next claim of the session. If the LIMIT is a parameter, its value is known once a claim takes fewer
-- messages than it was given. While all are taken, the LIMIT may be larger, and the prediction grows in steps that
-- double.
create or replace function mdb_queue._guess(taken integer, given integer, lease double precision, worker text)
returns void language plpgsql as $$
declare
  asked integer := mdb_queue._wanted();
  step  integer := coalesce(mdb_queue._setting('step'), '1');
begin
  if current_setting('mdb_queue.act') <> 'claim ' then
    null;   -- the text says how many
  elsif taken < given then
    perform set_config('mdb_queue.count', taken::text, false), set_config('mdb_queue.step', '1', false);
  elsif given = asked then
    perform set_config('mdb_queue.count', (asked + step)::text, false),
      set_config('mdb_queue.step', least(2 * step, 1000)::text, false);
  end if;
  if coalesce(worker, '') <> coalesce(current_setting('mdb_queue.worker', true), '') then
    perform set_config('mdb_queue.worker', coalesce(worker, ''), false);
  end if;
  if round(lease) between 1 and {limit.lease_seconds}
    and round(lease)::text is distinct from mdb_queue._setting('lease') then
    perform set_config('mdb_queue.lease', round(lease)::text, false);
  end if;
end $$;

-- Changes one message for a statement that is not the contract's claim: a claim of that message, a nack, an extension,
-- or another time to become visible. Returns null if another session was faster, so that the statement does not count
-- the row. Locks: the row of the message. Uses leased_N_id, scheduled_id and grouped_id.
create or replace function mdb_queue._update_one(old mdb_queue.messages, new mdb_queue.messages)
returns mdb_queue.messages language plpgsql as $$
declare
  now_at timestamptz := clock_timestamp();
  held   boolean := old.claimed_by is not null;
  q      penstock.queue;
  l      penstock.leased_0;
  m      penstock.envelope;
begin
  perform mdb_queue._check_change(old, new);
  select * into q from penstock.queue t where t.name = old.queue_name;
  if new.attempt_count > old.attempt_count then
    if old.visible_at > now_at or q.paused then
      return null;
    elsif held then
      for l in select * from penstock._pull_by_id(q.id, array[old.id], old.attempt_count) loop
        perform penstock._give_back(l, 'the lease expired', interval '0', false, 'wait');
      end loop;
    end if;
    m := penstock._pull_waiting(q.id, old.id, old.attempt_count);
    if m.id is null then
      return null;
    end if;
    perform penstock._lease_by_id(m, new.visible_at, new.claimed_by);
  elsif held and new.last_error is not null then
    select * into l from penstock._pull_by_id(q.id, array[old.id], old.attempt_count);
    if l.id is null then
      return null;
    end if;
    perform penstock._give_back(l, new.last_error, greatest(new.visible_at - now_at, interval '0'), false, 'wait');
  elsif held then
    if not penstock._amend_by_id(q.id, old.id, old.attempt_count, new.visible_at, new.claimed_by) then
      return null;
    end if;
  else
    m := penstock._pull_waiting(q.id, old.id, old.attempt_count);
    if m.id is null then
      return null;
    end if;
    m.last_error := new.last_error;
    perform penstock._place(q, m, case when new.visible_at > now_at then 'scheduled' else 'ready' end,
      case when new.visible_at > now_at then new.visible_at end, null);
  end if;
  return new;
end $$;

-- Refuses an UPDATE that the contract does not allow, and names the column.
create or replace function mdb_queue._check_change(old mdb_queue.messages, new mdb_queue.messages) returns void
language plpgsql as $$
begin
  if (new.id, new.queue_name, new.payload, new.max_attempts, new.enqueued_at)
     is distinct from (old.id, old.queue_name, old.payload, old.max_attempts, old.enqueued_at) then
    perform penstock._fail_value('mdb_queue.messages', 'id, queue_name, payload, max_attempts or enqueued_at',
      'changes of visible_at, attempt_count, claimed_by and last_error');
  elsif new.attempt_count is null or new.attempt_count not in (old.attempt_count, old.attempt_count + 1) then
    perform penstock._fail_value('attempt_count', new.attempt_count::text,
      format('%s, or %s for a claim', old.attempt_count, old.attempt_count + 1));
  elsif new.visible_at is null or not isfinite(new.visible_at) then
    perform penstock._fail_value('visible_at', new.visible_at::text, 'a time');
  end if;
end $$;

-- Runs for each row of a DELETE: acks a message that the caller holds, and cancels one that waits. Locks: the row of
-- the message. Uses leased_N_id, and otherwise the indexes of penstock.cancel.
create or replace function mdb_queue._delete() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  queue integer := (select q.id from penstock.queue q where q.name = old.queue_name);
  l     penstock.leased_0;
  m     penstock.envelope;
begin
  if old.claimed_by is not null then
    select * into l from penstock._pull_by_id(queue, array[old.id], old.attempt_count);
    if l.id is null then
      return null;
    end if;
    perform penstock._done(l);
    return old;
  end if;
  m := penstock._pull_waiting(queue, old.id, old.attempt_count);
  if m.id is not null then
    perform penstock._finish(m, 'cancelled', null);
    return old;
  end if;
  -- The message is in a group, or was leased through another interface.
  return case when penstock._remove_waiting(old.id, 'cancelled') is not null then old end;
end $$;

-- Runs for each row of an INSERT: enqueues a message. Locks and indexes: as penstock.enqueue.
create or replace function mdb_queue._insert() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q penstock.queue;
begin
  if new.id is not null or new.attempt_count <> 0 or new.claimed_by is not null or new.last_error is not null then
    perform penstock._fail_value('mdb_queue.messages', 'id, attempt_count, claimed_by or last_error',
      'queue_name, payload, max_attempts and visible_at');
  end if;
  select * into q from penstock.queue t where t.name = new.queue_name;
  new.id := penstock.enqueue(new.queue_name, new.payload,
    visible_at => case when new.visible_at > clock_timestamp() then new.visible_at end,
    max_attempts => nullif(new.max_attempts, q.max_attempts::integer));
  new.attempt_count := 0;
  new.max_attempts := coalesce(new.max_attempts, q.max_attempts);
  new.enqueued_at := clock_timestamp();
  new.visible_at := coalesce(new.visible_at, new.enqueued_at);
  return new;
end $$;

-- Runs for each row of a DELETE on mdb_queue.dead_messages: cancels the dead letter. Locks and indexes: as
-- penstock.cancel.
create or replace function mdb_queue._delete_dead() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return case when penstock._remove_waiting(old.id, 'cancelled') is not null then old end;
end $$;

create or replace trigger begin_act before update or delete on mdb_queue.messages for each statement
  execute function mdb_queue._begin();
create or replace trigger insert_one instead of insert on mdb_queue.messages for each row
  execute function mdb_queue._insert();
create or replace trigger update_one instead of update on mdb_queue.messages for each row
  execute function mdb_queue._update();
create or replace trigger delete_one instead of delete on mdb_queue.messages for each row
  execute function mdb_queue._delete();
create or replace trigger end_act after update or delete on mdb_queue.messages for each statement
  execute function mdb_queue._end();
create or replace trigger delete_one instead of delete on mdb_queue.dead_messages for each row
  execute function mdb_queue._delete_dead();
