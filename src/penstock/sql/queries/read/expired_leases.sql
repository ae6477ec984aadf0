-- The number of leases that expired in the last seconds, by queue. It looks at a sample of the latest failed attempts,
-- so there may be more. No locks; uses attempt_log_xid.
with latest as materialized (
  select queue, ended_at, error
    from penstock.attempts_feed
   order by xid desc, message_id desc
   limit %(sample)s::integer
)
select queue, count(*)
  from latest
 where error = 'the lease expired'
   and ended_at > clock_timestamp() - make_interval(secs => %(seconds)s::double precision)
 group by queue
