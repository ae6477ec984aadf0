-- Schema mdb_queue, for code written against the mdb_queue SQL contract. contracts/mdb_queue has its views and
-- functions.
do $schema$
begin
  if to_regnamespace('mdb_queue') is not null
     and obj_description(to_regnamespace('mdb_queue'), 'pg_namespace')
         is distinct from 'Queues of Penstock, for code written against the mdb_queue SQL contract.' then
    raise exception 'there is a schema mdb_queue already, and it is not Penstock''s'
      using hint = 'Rename it (alter schema mdb_queue rename to ...), or install Penstock in another database.';
  end if;
end $schema$;
create schema if not exists mdb_queue;
comment on schema mdb_queue is 'Queues of Penstock, for code written against the mdb_queue SQL contract.';
