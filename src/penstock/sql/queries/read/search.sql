-- Messages with a text, from a place on: see penstock.search.
select *
  from penstock.search(%(wanted)s::text, %(queues)s::text[], %(payloads)s::boolean, %(place)s::text, %(page)s::integer,
                       %(milliseconds)s::integer)
