-- Records an action of an operator. Locks: only the new row. Indexes: none.
create or replace function penstock.record_activity(actor text, act text, target text default null,
                                                    details jsonb default null, request_id text default null,
                                                    address text default null)
returns bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into penstock.activity_log (actor, act, target, details, request_id, address)
  values (actor, act, target, details, request_id, address) returning id;
$$;
