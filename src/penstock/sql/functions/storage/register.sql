-- Creates a register: a sequence that is used for its last_value. Locks: none until it is committed. Indexes: none.
create or replace function penstock._register(register text, value bigint default 0) returns regclass language plpgsql
  as $$
begin
  execute format('create sequence penstock.%I minvalue 0', register);
  perform setval(format('penstock.%I', register)::regclass, value);
  return format('penstock.%I', register)::regclass;
end $$;
