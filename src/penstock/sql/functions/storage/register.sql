-- Registers: sequences that are used for their last_value. layout/register.sql says which ones are unlogged.
-- _register creates a register. Locks: none until it is committed. Indexes: none.
create or replace function penstock._register(register text, value bigint default 0) returns regclass language plpgsql
  as $$
begin
  execute format('create sequence penstock.%I minvalue 0', register);
  perform setval(format('penstock.%I', register)::regclass, value);
  return format('penstock.%I', register)::regclass;
end $$;

-- Creates a register that is 0 again after a crash. Setting it writes no WAL and takes no transaction id.
create or replace function penstock._unlogged_register(register text) returns regclass language plpgsql as $$
begin
  execute format('create unlogged sequence penstock.%I minvalue 0', register);
  return format('penstock.%I', register)::regclass;
end $$;
