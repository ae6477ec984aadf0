-- The rows of browse. _matches: whether a message matches the filter. Locks: none. Indexes: none.
create or replace function penstock._matches(f penstock.sight_filter, key text, error text, worker text,
  enqueued_at timestamptz) returns boolean
language sql immutable as $$
  select (f.key is null or key = f.key) and (f.error is null or strpos(error, f.error) > 0)
    and (f.worker is null or worker = f.worker)
     and (f.enqueued_before is null or enqueued_at < f.enqueued_before)
       and (f.enqueued_after is null or enqueued_at >= f.enqueued_after)
$$;

-- Returns a message as a row of the list.
create or replace function penstock._browse_row(queue text, state text, m penstock.envelope, at timestamptz, place text)
returns penstock.sighting
language sql immutable as $$
  select (m.id, queue || case when m.dead_at is null then ''
    else '.dlq' end, state, m.priority, m.attempt, m.max_attempts, m.enqueued_at, at, m.key, m.group_key,
          m.worker, left(m.last_error, 300),
          case when m.body_slot is not null then null when m.payload is not null then left(m.payload::text, 160)
            else octet_length(m.payload_bytes) || ' bytes' end,
          place, null)::penstock.sighting
$$;

-- Returns the last row of a page.
create or replace function penstock._page_end(place text, looked integer) returns penstock.sighting
language sql immutable as $$
  select (null, null, null, null, null, null, null, null, null, null, null, null, null, place,
    looked)::penstock.sighting
$$;

-- Returns a time as text for `place`, without spaces and independent of the settings of the session.
create or replace function penstock._stamp(at timestamptz) returns text language sql immutable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
