-- Returns the position from which on all rows of a queue lie that the snapshot of the caller shows; 0 if that is not
-- known. A rescan notes where the first row is, and up to which transaction id others had ended by then
-- (layout/register.sql). A snapshot in which a later transaction has ended was taken later. A snapshot in which no
-- earlier one is open shows the same, or was taken later. Any other snapshot may be older and show rows below. A
-- transaction that has put messages into lanes sees them before its commit lowers the register. Locks: none. Indexes:
-- none.
create or replace function penstock._first_row(q penstock.queue) returns bigint language plpgsql stable as $$
declare
  seen  constant bigint := pg_sequence_last_value(q.first_row_xid_register);
  first constant bigint := pg_sequence_last_value(q.first_row_register);
  mine  constant pg_snapshot := pg_current_snapshot();
begin
  if seen <> 0 and seen = pg_sequence_last_value(q.first_row_xid_register)
    and {first_row.run(seen)} = penstock._run_bits(q.first_row_register)
     and (pg_snapshot_xmax(mine)::text::bigint > {first_row.xmax(seen)}
       or pg_snapshot_xmin(mine)::text::bigint >= {first_row.xmax(seen)})
     and not penstock._has_announced(q.id) then
    return first;
  end if;
  return 0;
end $$;

-- 20 bits that differ from one run of the server, and from one database, to the next. A restored database has the
-- registers of another one, with other rows and transaction ids.
create or replace function penstock._run_bits(register regclass) returns bigint language sql stable as $$
  select
    {first_row.run((date_part('epoch', pg_postmaster_start_time()) * 1e6)::bigint # (register::oid::bigint * 7919))}
$$;
