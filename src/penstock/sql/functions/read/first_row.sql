-- Returns a position at or above which all rows of a queue are that the caller's snapshot shows, or 0 if it is not
-- known. A rescan stores the position of the first row, and the transaction id up to which other transactions had ended
-- (layout/register.sql). A snapshot in which a later transaction has ended was taken later. A snapshot in which no
-- earlier transaction is open shows the same rows, or was taken later. Any other snapshot may be older and show lower
-- rows. A transaction that has put messages into lanes sees them before its commit lowers the register. Locks: none.
-- Indexes: none.
create or replace function penstock._first_row(q penstock.queue) returns bigint language plpgsql stable as $$
declare
  seen  constant bigint := {register.value(q.first_row_xid_register)};
  first constant bigint := {register.value(q.first_row_register)};
  mine  constant pg_snapshot := pg_current_snapshot();
begin
  if seen <> 0 and seen = {register.value(q.first_row_xid_register)}
    and {first_row.run(seen)} = penstock._run_bits(q.first_row_register)
     and (pg_snapshot_xmax(mine)::text::bigint > {first_row.xmax(seen)}
       or pg_snapshot_xmin(mine)::text::bigint >= {first_row.xmax(seen)})
     and not penstock._has_announced(q.id) then
    return first;
  end if;
  return 0;
end $$;

-- Returns 20 bits that differ between runs of the server and between databases. A restored database has registers that
-- belong to other rows and other transaction ids.
create or replace function penstock._run_bits(register regclass) returns bigint language sql stable as $$
  select
    {first_row.run((date_part('epoch', pg_postmaster_start_time()) * 1e6)::bigint # (register::oid::bigint * 7919))}
$$;
