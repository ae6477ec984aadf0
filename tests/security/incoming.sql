-- Where clients of version 2 copy messages to, for penstock.spark_enqueue, which reads it with the rights of its caller.
create temporary table penstock_incoming (
  queue         text,
  payload       jsonb,
  payload_bytes bytea,
  headers       jsonb,
  key           text,
  priority      integer,
  group_key     text,
  delay_seconds double precision,
  visible_at    timestamptz,
  ttl_seconds   double precision,
  max_attempts  integer
) on commit drop;
-- Not compressed, so that the size of a payload can be told without reading it.
alter table pg_temp.penstock_incoming alter payload set storage external, alter payload_bytes set storage external, alter headers set storage external;
