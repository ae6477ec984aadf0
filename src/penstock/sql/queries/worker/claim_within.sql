-- Claims from one queue up to a total size. The columns of a lease are in penstock/model/lease_columns.py.
select {lease},
       date_part('epoch', l.lease_until - clock_timestamp()) as remaining,
       date_part('epoch', clock_timestamp() - l.enqueued_at) as waited
  from penstock.claim_within(%(queue)s::text, %(count)s::integer, %(lease_seconds)s::integer, %(worker)s::text,
                             %(max_bytes)s::bigint) l
