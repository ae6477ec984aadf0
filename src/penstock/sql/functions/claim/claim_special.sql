-- The long path of claim: takes rows under the lease, then handles expired messages and group tokens among them.
-- has_some: the caller has claimed messages already and wants this many more. Locks: as claim; also the rows of keys
-- and groups. Uses lane_N_order and leased_N_token.
--: variant by_id
--:   penstock._lease_number() => penstock._lease_number() + {token.by_id}
--:   penstock._claim_special( => penstock._claim_special_by_id(
--:   penstock._claim_dead( => penstock._claim_dead_by_id(
--:   _claim_special. => _claim_special_by_id.
create or replace function penstock._claim_special(queue text, count integer, lease_seconds integer, worker text,
  has_some boolean)
returns setof penstock.lease language plpgsql as $$
#variable_conflict use_column
declare
  started    timestamptz := clock_timestamp();
  until      timestamptz;
  q          penstock.queue;
  lease_base bigint;
  allowed    integer;
  wanted     integer;
  n          integer;
  live       text;
  used       integer[] := '{}';
  slot       integer;
begin
  if queue ^@ 'penstock.' then perform penstock._check_internal(queue); end if;
  if count not between 1 and {limit.messages} or count is null then
    perform penstock._fail_value('count', count::text, 'a whole number from 1 to {limit.messages}');
  end if;
  perform penstock._check_lease(_claim_special.lease_seconds);
  select * into q from penstock.queue t where t.name = _claim_special.queue;
  if not found then
    return query select * from penstock._claim_dead(_claim_special.queue, count, _claim_special.lease_seconds,
      _claim_special.worker);
    return;
  end if;
  if q.paused then
    return;
  end if;
  until := started + make_interval(secs => coalesce(_claim_special.lease_seconds, q.lease_seconds));
  if pg_sequence_last_value(q.lanes_register) <> q.lane_bits then
    q := penstock._with_lanes(q);
    perform penstock._announce('upkeep', 'upkeep', null);   -- at commit, _adopt_lanes
  end if;
  perform penstock._in_passing(q);
  -- Not before the sweep: the sequence takes a transaction id once in 32 times, and then the claim may not sweep.
  lease_base := penstock._lease_number() + {token.secret(q.name)}
    + case when q.keep_history > 0 or q.has_members then {token.history_bit} else 0 end;
  allowed := penstock._allowance(q, count);
  wanted := allowed;
  for round in 1 .. 2 loop
    exit when wanted = 0;
    live := {ring.in_use({ring.text})};
    for lane in 1 .. cardinality(q.priorities) loop
      for i in 1 .. length(live) loop
        slot := substr(live, i, 1);
        loop
          n := penstock._take_special(slot, q, lane, wanted, lease_base + slot, until, _claim_special.worker);
          exit when n = 0;
          used := used || slot;
          -- An expired message, or an empty group, makes room for another message.
          wanted := wanted - n + penstock._resolve(slot, lease_base + slot, until, _claim_special.worker);
          exit when wanted = 0;
        end loop;
        exit when wanted = 0;
      end loop;
      exit when wanted = 0;
    end loop;
    exit when wanted = 0 or round = 2 or not penstock._look_again(q, wanted, has_some or used <> '{}');
  end loop;
  if q.throughput_limit is not null and wanted > 0 then
    perform penstock._spend(q, -wanted);
  end if;
  if used <> '{}' and not penstock._alone() and penstock._in_block() then
    perform penstock._announce('leased ' || q.id, 'leased', q.id);
  end if;
  if used <@ array[slot] then
    --: branch on slot
    return query
    select {lease.row(l, q.name, null::text)}
    from penstock.leased_{slot} l where l.token = lease_base + {slot} order by l.priority desc, l.position;
    --: end
    return;
  end if;
  return query
  select {lease.row(l, q.name, null::text)}
  from (
    select * from penstock.leased_0 where false
    --: for each segment
    union all select * from penstock.leased_{slot} l where l.token = lease_base + {slot}
    --: end
  ) l order by l.priority desc, l.position;
end $$;
