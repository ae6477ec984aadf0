-- Checks a message against the limits of its queue. The error names the field and what is allowed. Locks: none.
-- Indexes: none.
create or replace function penstock._check_message(
  q penstock.queue, payload jsonb, payload_bytes bytea, headers jsonb, key text, priority integer, group_key text,
    delay interval,
  visible_at timestamptz, ttl interval, max_attempts integer)
returns void language plpgsql as $$
declare
  size bigint;
begin
  if payload is null and payload_bytes is null then
    perform penstock._fail_value('payload', null, 'a JSON value in payload, or bytes in payload_bytes');
  elsif payload is not null and payload_bytes is not null then
    perform penstock._fail_value('payload_bytes', 'given', 'one of payload and payload_bytes, not both');
  end if;
  size := coalesce(octet_length(payload_bytes), penstock._text_bytes(payload));
  if size > q.max_payload_bytes then
    perform penstock._fail_too_large(q, size);
  end if;
  if priority not between -9 and 9 or priority is null then
    perform penstock._fail_value('priority', priority::text, 'a whole number from -9 to 9');
  end if;
  if max_attempts not between 1 and 100 then
    perform penstock._fail_value('max_attempts', max_attempts::text, 'a whole number from 1 to 100');
  end if;
  if jsonb_typeof(headers) <> 'object' then
    perform penstock._fail_value('headers', headers::text, 'a JSON object');
  elsif greatest(pg_column_size(headers), penstock._text_bytes(headers)) > 16384 then
    perform penstock._fail_value('headers', format('%s bytes',
      greatest(pg_column_size(headers), penstock._text_bytes(headers))), 'at most 16384 bytes');
  end if;
  if octet_length(key) not between 1 and {limit.key_bytes} then
    perform penstock._fail_value('key', key, '1 to {limit.key_bytes} bytes of text');
  end if;
  if octet_length(group_key) not between 1 and {limit.key_bytes} then
    perform penstock._fail_value('group_key', group_key, '1 to {limit.key_bytes} bytes of text');
  end if;
  if delay is not null and visible_at is not null then
    perform penstock._fail_value('visible_at', visible_at::text, 'delay or visible_at, not both');
  elsif delay < interval '0' or delay > interval '100 years' then
    perform penstock._fail_value('delay', delay::text, '0 to 100 years');
  elsif not isfinite(visible_at) or visible_at > clock_timestamp() + interval '100 years' then
    perform penstock._fail_value('visible_at', visible_at::text, 'a time within the next 100 years');
  end if;
  if ttl <= interval '0' or ttl > interval '100 years' then
    perform penstock._fail_value('ttl', ttl::text, 'more than 0, up to 100 years');
  end if;
end $$;
