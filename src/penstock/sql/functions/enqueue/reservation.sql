-- Reservations: how many messages of a queue with max_depth an open transaction was admitted. layout/lock.sql draws the
-- key of the lock. _reservation returns it. Locks: none. Indexes: none.
create or replace function penstock._reservation(queue_id integer, n bigint) returns bigint language sql immutable as $$
  select {reservation.of(queue_id, n)}
$$;

-- Adds to the reservation of this transaction, and takes the lock that shows it. Above 16 the number is rounded up to
-- two leading bits, so that a transaction takes about 50 locks for ten thousand messages. A setting remembers the
-- number. A producer who changes the setting may exceed max_depth by the messages of that transaction.
create or replace function penstock._note_reservation(queue_id integer, n integer) returns void language plpgsql as $$
declare
  noted constant text := coalesce(current_setting('penstock.reserved', true), '');
  before constant bigint := coalesce(substring(noted from ' ' || queue_id || '=(\d{1,8}) ')::bigint, 0);
  after  constant bigint := before + n;
  step   constant bigint := case when after <= 16 then 1 else 2 ^ (floor(log(2, after)) - 2) end;
begin
  perform set_config('penstock.reserved', replace(noted, format(' %s=%s ', queue_id, before), '')
    || format(' %s=%s ', queue_id, after), true);
  perform pg_advisory_xact_lock_shared(penstock._reservation(queue_id, (after + step - 1) / step * step));
end $$;

-- How many messages of a queue the open transactions of other sessions were admitted.
create or replace function penstock._reserved_by_others(queue_id integer) returns bigint language sql volatile as $$
  select coalesce(sum(t.n), 0)::bigint from (
    select max({reservation.count(l.objid::bigint)}) as n from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1 and l.granted and l.pid is distinct from pg_backend_pid()
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and l.classid::bigint = {reservation.classid(penstock._reservation(queue_id, 0))}
      and {reservation.queue_in_objid(l.objid::bigint)}
          = {reservation.queue_in_objid({reservation.lower_half(penstock._reservation(queue_id, 0))})}
    group by l.virtualtransaction) t
$$;
