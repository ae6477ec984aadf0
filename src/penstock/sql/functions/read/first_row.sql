-- Returns a position at or above which all rows of a queue are that the caller's snapshot shows, or 0 if it is not
-- known. A rescan stores the position of the first row, and the transaction id up to which other transactions had ended
-- (layout/register.sql). A snapshot in which a later transaction has ended was taken later. A snapshot in which no
-- earlier transaction is open shows the same rows, or was taken later. Any other snapshot may be older and show lower
-- rows. A transaction that has put messages into lanes sees them before its commit lowers the register. Locks: none.
-- Indexes: none.
create or replace function penstock._first_row(queue_id integer, first_row_register regclass,
  first_row_xid_register regclass) returns bigint language plpgsql stable as $$
declare
  seen  constant bigint := {register.value(first_row_xid_register)};
  first constant bigint := {register.value(first_row_register)};
begin
  if seen <> bigint '0' and seen = {register.value(first_row_xid_register)}
    and {first_row.run(seen)} = penstock._run_bits(first_row_register)
     and (pg_snapshot_xmax(pg_current_snapshot()) > {first_row.xmax(seen)}
       or pg_snapshot_xmin(pg_current_snapshot()) >= {first_row.xmax(seen)})
     -- As _has_announced: a call costs more than the expression.
     and strpos(coalesce(current_setting('penstock.announced', true), ''), ' ' || queue_id::text || '/') = 0 then
    return first;
  end if;
  return bigint '0';
end $$;

-- Returns 20 bits that differ between runs of the server and between databases. A restored database has registers that
-- belong to other rows and other transaction ids.
create or replace function penstock._run_bits(register regclass) returns bigint language sql stable as $$
  select {first_row.run(h.bits)}
  from (select hashint8extended((date_part('epoch', pg_postmaster_start_time()) * float8 '1e6')::bigint,
          register::oid::bigint) as bits) h
$$;
