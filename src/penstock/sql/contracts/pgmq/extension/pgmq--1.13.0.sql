do $$
begin
  if obj_description(to_regnamespace('pgmq'), 'pg_namespace') is distinct from 'Queues of Penstock, for code written against PGMQ.' then
    raise exception 'schema pgmq of Penstock is not in this database'
      using hint = 'Run: penstock migrate up --with pgmq';
  end if;
end $$;
