-- Settle one message as done. The token says where a message leased in place is; leased_N_token finds the others.
-- _ack_logged_N settles a message that was moved and leaves history, if nothing else is to do. False if there is, or if
-- the lease is lost. Locks: the row of the message. Uses leased_N_token.
--: for each segment
create or replace function penstock._ack_logged_{slot}(id bigint, token bigint) returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  settled     bigint;
  has_members boolean;
begin
  with gone as (
    delete from penstock.leased_{slot} l
    where l.token = _ack_logged_{slot}.token and l.id = _ack_logged_{slot}.id and l.lease_until > clock_timestamp()
      and (l.key, l.group_key, l.body_slot) is null
    returning id, enqueued_at, first_claimed_at, claimed_at, queue_id, priority, attempt, max_attempts, worker, key,
      group_key, headers, payload, payload_bytes, last_error),
  logged as (
    {history.insert(g, q.name, 'done', clock_timestamp(), g.last_error)}
    from gone g join penstock.queue q on q.id = g.queue_id where q.keep_history > 0)
  select g.id, (select q.has_members from penstock.queue q where q.id = g.queue_id) into settled, has_members
  from gone g;
  if has_members then
    perform penstock._end_members(array[settled], 'done');
  end if;
  return settled is not null;
end $$;
--: end

-- Settles a message as done. Raises PS007 if the lease is lost. Locks: the row of the message. Uses leased_N_token, or
-- the place in the token.
create or replace function penstock.ack(id bigint, token bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  slot integer := {token.segment(ack.token)};
begin
  -- Bit 4 of the token (value 16) says that the queue keeps history. Then, and for messages with a key, a group or a
  -- body and for members of batches, a DELETE is not enough.
  if {token.leaves_no_history(ack.token)} and {token.is_moved(ack.token)} then
    --: branch on slot
    delete from penstock.leased_{slot} l where l.token = ack.token and l.id = ack.id
      and l.lease_until > clock_timestamp()
      and (l.key, l.group_key, l.body_slot) is null and {is_no_member(l)};
    --: end
    if found then
      return;
    end if;
  elsif {token.leaves_no_history(ack.token)} then
    --: branch on slot
    delete from penstock.lane_{slot} l where l.ctid = penstock._place(ack.token) and l.id = ack.id
      and penstock._hold_mark(l.hold) = penstock._held_mark(ack.token)
      and l.hold > penstock._hold_at(clock_timestamp()) and (l.key, l.body_slot) is null and {is_no_member(l)};
    --: end
    if found then
      return;
    end if;
  elsif {token.is_moved(ack.token)} and slot <= {ring.last_segment} then
    --: branch on slot
    if penstock._ack_logged_{slot}(ack.id, ack.token) then
      return;
    end if;
    --: end
  end if;
  perform penstock._ack_special(ack.id, ack.token);
end $$;

-- The long path of ack: for messages with history, a key, a group or a body, and for lost leases. Locks: the row of the
-- message, and those of _done. Indexes: as _pull.
create or replace function penstock._ack_special(id bigint, token bigint) returns void language plpgsql as $$
declare
  l penstock.leased_0 := penstock._pull(id, token);
begin
  if l.id is null then
    perform penstock._fail_lost(id);
  end if;
  perform penstock._done(l);
end $$;
