-- Where a task copies its messages to, for penstock.spark_enqueue. Its owner there is another user, who may read it.
create temporary table penstock_incoming (
  n             bigint generated always as identity,
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
grant select on pg_temp.penstock_incoming to public;
