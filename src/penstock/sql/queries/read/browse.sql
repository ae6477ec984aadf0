-- A page of messages in one state: see penstock.browse.
select *
  from penstock.browse(%(state)s::text, %(queues)s::text[],
         row(%(key)s::text, %(error)s::text, %(worker)s::text, %(enqueued_before)s::timestamptz,
           %(enqueued_after)s::timestamptz)::penstock.sight_filter,
         %(place)s::text, %(page)s::integer, %(look)s::integer)
