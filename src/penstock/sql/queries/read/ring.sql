-- The number of segments of the ring in each state, without the overflow segment, and whether that one is in use. No
-- locks; reads one sequence.
select count(*) filter (where state = 'current'), count(*) filter (where state = 'in use'),
       count(*) filter (where state = 'closing'), count(*) filter (where state = 'free'),
       bool_or(state = 'overflow')
  from penstock.segments
