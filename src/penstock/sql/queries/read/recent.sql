-- Counts the messages that finished in the last seconds, by queue and state, in a sample of the latest rows of history.
-- since_seconds is the time that the sample covers: a rate is the count divided by it. No locks. Uses history_log_xid.
with latest as materialized (
  select queue, state, finished_at
    from penstock.history_feed
   order by xid desc, id desc
   limit %(sample)s::integer
)
select queue, state, count(*),
       case when (select count(*) from latest) < %(sample)s::integer then %(seconds)s::double precision
            else least(%(seconds)s::double precision,
                       (select extract(epoch from clock_timestamp() - min(finished_at))
                        from latest)::double precision) end as since_seconds
  from latest
 where finished_at > clock_timestamp() - make_interval(secs => %(seconds)s::double precision)
 group by queue, state
