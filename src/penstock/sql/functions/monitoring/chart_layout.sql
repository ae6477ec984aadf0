-- Where a point of a chart is stored: minutes in slots 0 to 3 of twelve hours each, hours in slots 4 to 8 of thirty
-- days each. Locks: none. Indexes: none.

-- The beginning of the minute, hour or other step that a time is in.
create or replace function penstock._chart_step(step interval, at timestamptz) returns timestamptz
language sql immutable parallel safe as $$
  select date_bin(step, at, '2000-01-01 00:00:00+00')
$$;

-- Twelve hours, or thirty days, since 1970.
create or replace function penstock._chart_period(is_hour boolean, at timestamptz) returns bigint
language sql immutable parallel safe as $$
  select floor(date_part('epoch', at) / case when is_hour then 2592000 else 43200 end)::bigint
$$;

-- The slot of a time: its period, modulo the number of slots.
create or replace function penstock._chart_slot(is_hour boolean, at timestamptz) returns smallint
language sql immutable parallel safe as $$
  select case when is_hour then 4 + penstock._chart_period(true, at) % 5
              else penstock._chart_period(false, at) % 4 end::smallint
$$;

-- Whether the minutes of a time are still kept.
create or replace function penstock._chart_has_minute(at timestamptz) returns boolean language sql stable as $$
  select penstock._chart_period(false, at) between penstock._chart_period(false, clock_timestamp()) - 2
    and penstock._chart_period(false, clock_timestamp())
$$;

-- Durations are counted in buckets. Bucket 0 is below a millisecond. The upper ends of the others are 2^(1/4) apart, so
-- a percentile that is taken from them is at most 9 % too high or too low. The last bucket, 127, begins at 35 days.
create or replace function penstock._duration_bucket(duration interval) returns integer
language sql immutable parallel safe as $$
  select case when date_part('epoch', duration) < 0.001 then 0
    else least(127, 1 + floor(4 * (ln(date_part('epoch', duration) * 1000) / ln(2::double precision))))::integer end
$$;

-- The middle of a bucket in seconds.
create or replace function penstock._bucket_seconds(bucket integer) returns double precision
language sql immutable parallel safe as $$
  select case when bucket = 0 then 0.0005 else power(2::double precision, (bucket - 0.5) / 4) / 1000 end
$$;
