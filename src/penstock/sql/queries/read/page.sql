-- A page of the messages of live_rows or finished_rows by id, for the data plane. A filter that is NULL lets all
-- messages through. A page has about max_bytes of payloads, headers and errors, and one message at least. The last
-- column is the number of messages that were found, including those that did not fit. Locks: none.
select * from (
select page.*, sum(coalesce(octet_length(payload), octet_length(payload_bytes) * 4 / 3)
                   + coalesce(octet_length(headers), 0) + coalesce(octet_length(last_error), 0))
                 over (order by id rows between unbounded preceding and 1 preceding) as bytes_before,
       count(*) over () as found
  from (
{rows}
 where (%(queues)s::text[] is null or queue = any (%(queues)s::text[]))
   and (%(internal)s::boolean or not starts_with(queue, 'penstock.'))
   and (%(states)s::text[] is null or state = any (%(states)s::text[]))
   and (%(key)s::text is null or key = %(key)s::text)
   and (%(error)s::text is null or strpos(last_error, %(error)s::text) > 0)
   and (%(enqueued_before)s::timestamptz is null or enqueued_at < %(enqueued_before)s::timestamptz)
   and (%(enqueued_after)s::timestamptz is null or enqueued_at >= %(enqueued_after)s::timestamptz)
   and (%(after)s::bigint is null or id > %(after)s::bigint)
 order by id
 limit %(limit)s::integer
) page) pages
 where coalesce(bytes_before, 0) < %(max_bytes)s::bigint
 order by id
