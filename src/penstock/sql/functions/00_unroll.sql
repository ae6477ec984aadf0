-- Runs a CREATE statement after writing out, for each of the nine segments, what stands between the lines --[ and
-- --], with {slot} replaced by the segment's number. PL/pgSQL keeps the plans of static statements only, and a plan made
-- anew costs more than the statement it is for: so each segment gets a statement of its own, from one text.
-- After "--[ slot" the statements are the leaves of an IF on the variable slot, three or four comparisons deep: every expression
-- evaluated costs about a microsecond, once a transaction, and a CASE would need up to nine.
-- {envelope} stands for the columns that every message has, {leased} for those of leased_N.
create or replace function penstock._unroll(template text) returns void language plpgsql as $$
declare
  parts text[] := regexp_split_to_array(template, '\n\s*--[][]');
  body  text := parts[1];
  leaf  text;
begin
  for i in 2 .. cardinality(parts) loop
    leaf := substr(parts[i], strpos(parts[i], E'\n'));
    if i % 2 = 1 then
      body := body || leaf;
    elsif parts[i] like ' slot%' then
      body := body || E'\n' || penstock._branch(leaf, 0, 8);
    else
      body := body || (select string_agg(replace(leaf, '{slot}', slot::text), '' order by slot) from generate_series(0, 8) slot);
    end if;
  end loop;
  body := replace(body, '{leased}', 'token, lease_until, position, watched, {envelope}');
  execute replace(body, '{envelope}', (select string_agg(a.attname, ', ' order by a.attnum) from pg_attribute a
                                       where a.attrelid = 'penstock.envelope'::regclass and a.attnum > 0 and not a.attisdropped));
end $$;

create or replace function penstock._branch(leaf text, low integer, high integer) returns text language plpgsql as $$
declare
  middle integer := (low + high - 1) / 2;
begin
  if low = high then
    return replace(leaf, '{slot}', low::text);
  end if;
  return format(E'if slot <= %s then %s\nelse %s\nend if;', middle, penstock._branch(leaf, low, middle), penstock._branch(leaf, middle + 1, high));
end $$;

-- Creates nine functions from one text, one for each segment: {slot} is the segment's number. A session compiles a whole
-- PL/pgSQL function the first time it calls it, so a statement that is written out nine times in one function costs the
-- first call nine times its text. With one function for each segment a session compiles only those it uses.
-- A call from function to function costs 0.5 us, and 4 us if it returns rows.
create or replace function penstock._for_each_segment(template text) returns void language plpgsql as $$
begin
  for slot in 0 .. 8 loop
    perform penstock._unroll(replace(template, '{slot}', slot::text));
  end loop;
end $$;
