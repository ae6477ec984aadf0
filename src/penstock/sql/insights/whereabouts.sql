-- Which of the messages are not finished, in which queue and state. Not those that take long to find: see penstock.find_message.
select m.id, m.queue, m.state
  from unnest(%(ids)s::bigint[]) as wanted (id)
  cross join lateral penstock.find_message(wanted.id, false) as m
