-- Counts the attempts that failed in the last seconds, by queue, in a sample of the latest ones: see recent.sql. No
-- locks. Uses attempt_log_xid.
with latest as materialized (
  select queue, ended_at
    from penstock.attempts_feed
   order by xid desc, message_id desc
   limit %(sample)s::integer
)
select queue, count(*),
       case when (select count(*) from latest) < %(sample)s::integer then %(seconds)s::double precision
            else least(%(seconds)s::double precision,
                       (select extract(epoch from clock_timestamp() - min(ended_at))
                        from latest)::double precision) end as since_seconds
  from latest
 where ended_at > clock_timestamp() - make_interval(secs => %(seconds)s::double precision)
 group by queue
