-- Records that a consumer waits for messages of these queues, and reads when their next scheduled ones are due.
-- A queue that does not exist is left out.
select q.name, penstock.attend(q.name, %(seconds)s::integer)
  from penstock.queues q
 where q.name = any (%(queues)s::text[])
