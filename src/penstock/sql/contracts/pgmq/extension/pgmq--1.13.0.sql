do $$
begin
  if obj_description(to_regnamespace('pgmq'), 'pg_namespace') is distinct from 'Queues of Penstock, for code written against PGMQ.' then
    raise exception 'Penstock''s schema pgmq is not installed in this database'
      using hint = 'Run: penstock migrate up --with pgmq';
  end if;
end $$;
