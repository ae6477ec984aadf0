-- The size of a JSON value as text. Limits count it, because readers get the text. The stored size says little about
-- it, because a number such as 1e131000 is stored in 12 bytes and printed with 131,001 digits. Printing takes 0.1 us
-- for 30 bytes and 1.7 us for 600. PostgreSQL prints at most 1 GB. A larger value counts as 1 GB, which is above every
-- limit. A value that is stored in up to 64 kB never reaches that size.
-- Locks: none. Indexes: none.
create or replace function penstock._text_bytes(value jsonb) returns integer language plpgsql immutable strict as $$
begin
  if pg_column_size(value) <= 65536 then
    return octet_length(value::text);
  end if;
  begin
    return octet_length(value::text);
  exception when program_limit_exceeded then
    return {text.max};
  end;
end $$;
