-- Returns whether the time in a register has come. A register is never set further ahead than ahead_us. A register that
-- is further ahead was set before the clock was set back, and counts as not set. Locks: none. Indexes: none.
create or replace function penstock._is_due(register regclass, now_us bigint, ahead_us bigint) returns boolean
language sql volatile as $$
  select abs(2 * (now_us - {register.value(register)}::float8) + ahead_us) >= ahead_us
$$;
