-- Bodies. A payload of more than 1,000 bytes is written once, to body_N, and only the small row moves from state to
-- state. _store_body writes it. Locks: ROW EXCLUSIVE on the current segment, until commit. Uses body_N_id.
create or replace function penstock._store_body(m penstock.envelope) returns penstock.envelope language plpgsql as $$
declare
  slot integer;
begin
  m.body_slot := null;
  if greatest(pg_column_size(m.payload), octet_length(m.payload_bytes)) > {payload.inline_bytes} then
    m.body_slot := penstock._lock_current();
    slot := m.body_slot;
    --: branch on slot
    insert into penstock.body_{slot} values (m.id, m.payload, m.payload_bytes);
    --: end
    m.payload := null;
    m.payload_bytes := null;
  end if;
  return m;
end $$;

-- The size of a body in bytes. Locks: ACCESS SHARE. Uses body_N_id.
create or replace function penstock._body_size(slot smallint, id bigint) returns bigint language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  size bigint;
begin
  --: branch on slot
  select coalesce(pg_column_size(b.payload), octet_length(b.payload_bytes)) into size from penstock.body_{slot} b
    where b.id = _body_size.id;
  --: end
  return size;
end $$;

-- Deletes a body. Locks: the row. Uses body_N_id.
create or replace function penstock._drop_body(slot smallint, id bigint) returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  --: branch on slot
  delete from penstock.body_{slot} b where b.id = _drop_body.id;
  --: end
  if not found then
    delete from penstock.body_0 b where b.id = _drop_body.id;
  end if;
end $$;

-- Deletes the old body of a message and stores the new one. Locks: the rows of the bodies. Indexes: as _drop_body.
create or replace function penstock._swap_body(m penstock.envelope, old_body smallint) returns penstock.envelope
language plpgsql as $$
begin
  if old_body is not null then
    perform penstock._drop_body(old_body, m.id);
  end if;
  return penstock._store_body(m);
end $$;
