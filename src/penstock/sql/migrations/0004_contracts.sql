-- What the contracts of others (schemas mdb_queue and pgmq) need of the engine. Their callers settle a message by its id
-- and know of no token: so what is claimed through them gets a negative token, and these leases alone are indexed by id.
do $segments$
begin
  for slot in 0..8 loop
    execute format('create index leased_%1$s_id on penstock.leased_%1$s (id) where token < 0', slot);
  end loop;
end $segments$;

do $schema$
declare
  ours constant text := 'Queues of Penstock, for code written against the mdb_queue SQL contract.';
begin
  if obj_description(to_regnamespace('mdb_queue'), 'pg_namespace') is distinct from ours and to_regnamespace('mdb_queue') is not null then
    raise exception 'there is a schema mdb_queue already, and it is not Penstock''s'
      using hint = 'Rename it (alter schema mdb_queue rename to ...), or install Penstock in another database.';
  end if;
  create schema if not exists mdb_queue;
  execute format('comment on schema mdb_queue is %L', ours);
end $schema$;
