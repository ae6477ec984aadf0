-- Read a value from a JSON object of settings. A JSON null means the default. _whole: a whole number within a range.
-- Locks: none. Indexes: none.
create or replace function penstock._whole(setting text, value jsonb, low bigint, high bigint, default_value bigint)
returns bigint language plpgsql immutable as $$
begin
  if value = 'null' then
    return default_value;
  end if;
  if jsonb_typeof(value) = 'number' and (value #>> '{}')::numeric between low and high
    and (value #>> '{}')::numeric % 1 = 0 then
    return (value #>> '{}')::numeric::bigint;
  end if;
  perform penstock._fail_value(setting, value #>> '{}', format('a whole number from %s to %s%s', low, high,
    case when default_value is null then ', or null for none'
      else format(', or null for the default of %s', default_value) end));
end $$;

-- A setting that is true or false. Locks: none. Indexes: none.
create or replace function penstock._truth(setting text, value jsonb, default_value boolean) returns boolean
language plpgsql immutable as $$
begin
  if value = 'null' then
    return default_value;
  end if;
  if jsonb_typeof(value) = 'boolean' then
    return value::boolean;
  end if;
  perform penstock._fail_value(setting, value #>> '{}', 'true or false');
end $$;

-- A setting that is text. Locks: none. Indexes: none.
create or replace function penstock._text_of(setting text, value jsonb) returns text language plpgsql immutable as $$
begin
  if jsonb_typeof(value) not in ('string', 'null') then
    perform penstock._fail_value(setting, value::text, 'text');
  end if;
  return value #>> '{}';
end $$;
