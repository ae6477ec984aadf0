-- Internal queues, whose names begin with "penstock.", take the long ways of enqueue and claim: these ask who the caller is.
alter table penstock.queue
  drop column plain_in,
  drop column plain_out,
  add column plain_in  boolean not null generated always as (
    message_ttl_seconds is null and max_depth is null and max_payload_bytes >= 8192 and not name ^@ 'penstock.') stored,
  add column plain_out boolean not null generated always as (
    plain and not paused and cardinality(priorities) = 1 and max_in_flight is null and throughput_limit is null and not name ^@ 'penstock.') stored;

-- spark_enqueue reads what its caller has copied in with the rights of its caller, and hands it on in arrays.
drop function if exists penstock._spark_put(text, boolean, text, text);
drop function if exists penstock._spark_put(text, boolean, jsonb, text, text);
drop function if exists penstock._spark_put_piece(penstock.queue, boolean, boolean, tid, tid);
