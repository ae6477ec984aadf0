-- Cron rules have five fields (minute, hour, day of month, month, day of week), are a name such as @daily, or a period
-- such as @every 30s.
-- _parse_cron returns the parts of a rule, or raises an error that names the wrong field. every_hour means that the
-- hour field begins with *. Such a rule follows elapsed time instead of local time. The difference matters on the two
-- nights a year on which daylight saving time begins or ends.
-- Locks: none. Indexes: none.
create or replace function penstock._parse_cron(
  cron text, out minutes integer[], out hours integer[], out days integer[], out months integer[],
    out weekdays integer[],
  out either_day boolean, out every_hour boolean)
language plpgsql immutable as $$
declare
  named constant jsonb := '{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
                            "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}';
  field text[] := regexp_split_to_array(trim(lower(coalesce(named ->> lower(trim(cron)), cron)), E' \t'), '[ \t]+');
begin
  if cardinality(field) is distinct from 5 or octet_length(cron) > 1000 then
    perform penstock._fail_value('cron', cron,
      'five fields: minute, hour, day of month, month and day of week, such as 30 8 * * mon-fri; or '
      '@hourly, @daily, @weekly, @monthly, @yearly; or @every and a period, such as @every 30s');
  end if;
  minutes := penstock._cron_field('minute', field[1], 0, 59, '{}');
  hours := penstock._cron_field('hour', field[2], 0, 23, '{}');
  days := penstock._cron_field('day of month', field[3], 1, 31, '{}');
  months := penstock._cron_field('month', field[4], 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
  weekdays := penstock._cron_field('day of week', field[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}');
  -- If both kinds of day are given, one of them is enough, as in cron: the 13th and every Friday.
  either_day := field[3] !~ '^\*' and field[5] !~ '^\*';
  every_hour := field[2] ~ '^\*';
end $$;

-- Returns the numbers that a field contains: lists of *, n, a-b, and these with /step.
create or replace function penstock._cron_field(field text, spec text, low integer, high integer, names text[])
returns integer[]
language plpgsql immutable as $$
declare
  part  text;
  words text[];
  first integer;
  last  integer;
  step  integer;
  found integer[] := '{}';
begin
  foreach part in array string_to_array(spec, ',') loop
    words := regexp_match(part, '^(?:(\*)|([a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?)(?:/(\d{1,2}))?$');
    first := case when words[1] is null then penstock._cron_number(words[2], low, names) else low end;
    last := case when words[3] is not null then penstock._cron_number(words[3], low, names)
                 when words[1] is null and words[4] is null then first
                 else high end;
    -- In sat-sun, Sunday is 7.
    if names[1] = 'sun' and last = 0 and first > 0 then
      last := 7;
    end if;
    step := coalesce(words[4]::integer, 1);
    if (first between low and high and last between first and high and step > 0) is not true then
      perform penstock._fail_value('cron', spec,
        format('for the %s: numbers from %s to %s%s, ranges a-b, * for all, /n for every nth, in lists with commas',
        field, low, high, case when names = '{}' then ''
          else format(' or %s to %s', names[1], names[cardinality(names)]) end));
    end if;
    found := found || array(select n from generate_series(first, last, step) n);
  end loop;
  return array(select distinct case when names[1] = 'sun' then n % 7 else n end from unnest(found) n order by 1);
end $$;

-- Returns a number in a field, or the number of a name such as mon.
create or replace function penstock._cron_number(word text, low integer, names text[]) returns integer
language sql immutable as $$
  select case when word ~ '^\d+$' then word::integer else array_position(names, word) - 1 + low end
$$;

-- Returns the seconds of a period such as @every 30s, 5m, 12h or 1d, and null for any other rule. Such a rule fires at
-- the multiples of its period since 1970, in every time zone: @every 30s fires at the full and the half minute.
create or replace function penstock._cron_period(cron text) returns integer language plpgsql immutable as $$
declare
  words constant text[] := regexp_match(lower(trim(cron)), '^@every\s+(\d{1,8})\s*([smhd])$');
  seconds bigint;
begin
  if lower(trim(cron)) !~ '^@every\y' or cron is null then
    return null;
  end if;
  seconds := words[1]::bigint * case words[2] when 's' then 1 when 'm' then 60 when 'h' then 3600 else 86400 end;
  if (seconds between 1 and 31536000) is not true then
    perform penstock._fail_value('cron', cron, '@every and a period from 1s to 365d: a whole number with s, m, h or d');
  end if;
  return seconds;
end $$;

-- Returns the first time after a moment at which a rule fires in a time zone, or null if there is none within eight
-- years. A rule with fixed hours follows local time. A local time that is skipped when the clock is set forward fires
-- later by the length of the gap. A local time that occurs twice when the clock is set back fires the first time only.
-- A rule for every hour follows elapsed time.
create or replace function penstock._next_fire(cron text, time_zone text, after timestamptz) returns timestamptz
language plpgsql stable as $$
declare
  period  constant integer := penstock._cron_period(cron);
  rule    record;
  wall    timestamp := after at time zone time_zone;
  day     date;
  minute  integer;
  instant timestamptz;
begin
  if period is not null then
    return to_timestamp((floor(date_part('epoch', after) / period) + 1) * period);
  end if;
  select * into rule from penstock._parse_cron(cron);
  for day in select penstock._cron_days(rule.months, rule.days, rule.weekdays, rule.either_day, wall::date) loop
    select min(h * 60 + m) into minute from unnest(rule.hours) h, unnest(rule.minutes) m
    where h * 60 + m > case when day > wall::date then -1 else floor(date_part('epoch', wall::time) / 60) end;
    if minute is not null then
      instant := (day + make_interval(mins => minute)) at time zone time_zone;
      -- The simple result is correct unless the local clock changes near one of the two times.
      if penstock._is_steady(after, time_zone) and penstock._is_steady(instant, time_zone) then
        return instant;
      end if;
      return penstock._next_fire_near_turn(rule.minutes, rule.hours, rule.days, rule.months, rule.weekdays,
                                           rule.either_day, rule.every_hour, time_zone, after);
    end if;
  end loop;
  return null;
end $$;

-- Returns the days on which a rule fires, from a day on. No two are more than eight years apart (29 February across a
-- century).
create or replace function penstock._cron_days(months integer[], days integer[], weekdays integer[], either_day boolean,
  first date) returns setof date
language sql immutable as $$
  select d::date from generate_series(first, first + 2930, interval '1 day') d
  where date_part('month', d) = any (months)
    and case when either_day then date_part('day', d) = any (days) or date_part('dow', d) = any (weekdays)
             else date_part('day', d) = any (days) and date_part('dow', d) = any (weekdays) end
$$;

-- Returns whether the local clock does not change within three hours of a moment.
create or replace function penstock._is_steady(instant timestamptz, time_zone text) returns boolean language sql stable
  as $$
  select (instant - interval '3 hours') at time zone time_zone = (instant at time zone time_zone) - interval '3 hours'
     and (instant + interval '3 hours') at time zone time_zone = (instant at time zone time_zone) + interval '3 hours'
$$;

-- The same near a change of the local clock: it checks the individual times of the next hours.
create or replace function penstock._next_fire_near_turn(
  minutes integer[], hours integer[], days integer[], months integer[], weekdays integer[], either_day boolean,
    every_hour boolean,
  time_zone text, after timestamptz)
returns timestamptz language plpgsql stable as $$
declare
  wall    timestamp := after at time zone time_zone;
  day     date;
  fire_at timestamptz;
begin
  -- Start on the previous day, because the clock may have been set back over midnight.
  for day in select penstock._cron_days(months, days, weekdays, either_day, wall::date - 1) loop
    select min(t) into fire_at
    from (select day + make_interval(hours => h, mins => m) as time from unnest(hours) h, unnest(minutes) m
          where day + make_interval(hours => h, mins => m) >= wall - interval '3 hours' order by 1 limit 400) candidate,
         penstock._instants(candidate.time, time_zone, every_hour) t
    where t > after;
    exit when fire_at is not null;
  end loop;
  return fire_at;
end $$;

-- Returns the moments at which the local clock shows a time. On most days there is one.
create or replace function penstock._instants(wall timestamp, time_zone text, all_of_them boolean)
returns setof timestamptz
language plpgsql stable as $$
declare
  instant timestamptz := wall at time zone time_zone;
  shown   timestamptz[];
begin
  if instant at time zone time_zone = wall and penstock._is_steady(instant, time_zone) then
    return next instant;
    return;
  end if;
  shown := array(select instant + make_interval(mins => d) from generate_series(-180, 180, 15) d
                 where (instant + make_interval(mins => d)) at time zone time_zone = wall order by 1);
  if all_of_them then
    return query select unnest(shown);
  else
    return next coalesce(shown[1], instant);
  end if;
end $$;

-- Returns the next times at which a rule fires, to check a rule before it is used. Locks: none. Indexes: none.
create or replace function penstock.next_fires(cron text, time_zone text default 'UTC', count integer default 5,
  after timestamptz default null)
returns setof timestamptz language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  zone    text := penstock._checked_time_zone(time_zone);
  fire_at timestamptz := coalesce(after, clock_timestamp());
begin
  if count not between 1 and 1000 or count is null then
    perform penstock._fail_value('count', count::text, 'a whole number from 1 to 1000');
  end if;
  for i in 1 .. count loop
    fire_at := penstock._next_fire(cron, zone, fire_at);
    exit when fire_at is null;
    return next fire_at;
  end loop;
end $$;

-- Returns the time zone as the tz database spells it. Only names are accepted, because PostgreSQL takes any text with a
-- number in it for a POSIX rule, and so would take a misspelled name for UTC.
create or replace function penstock._checked_time_zone(time_zone text) returns text language plpgsql stable as $$
declare
  found text := (select z.name from pg_catalog.pg_timezone_names z where lower(z.name) = lower(time_zone)
    and z.name !~ '^posix' limit 1);
begin
  if found is null then
    perform penstock._fail_value('time_zone', time_zone, 'a name of the tz database, such as UTC or Europe/Paris');
  end if;
  return found;
end $$;
