-- Messages that finished recently, by queue and state: of the latest rows of history, as many as the sample takes,
-- those of the last seconds. `since` is how far back they reach: a rate is a count over that time. No locks; uses
-- history_log_xid.
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
