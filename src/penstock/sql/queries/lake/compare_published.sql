-- Compares the rows of gold of some days with those that are published, by day and queue: the numbers and checksums of
-- the rows of both sides, and the keys of rows that differ. Our own code fills in the placeholders in braces. Scans the
-- rows of gold. Uses the index on the day of the published ones, if there is one.
with both_sides as (
  select true as is_expected, {day}::text as day, {queue} as queue, concat_ws(' ', {name}) as name,
    hashtextextended(row ({fields})::text, 0) as hash
  from {expected} where {within}
  union all
  select false, {day}::text, {queue}, concat_ws(' ', {name}), hashtextextended(row ({fields})::text, 0)
  from {published} where {within} and {day} = any (%(days)s::date[])
), named as (
  select day, queue, name, count(*) filter (where is_expected) as expected,
    count(*) filter (where not is_expected) as found,
    coalesce(sum(hash) filter (where is_expected), 0) as expected_sum,
    coalesce(sum(hash) filter (where not is_expected), 0) as found_sum
  from both_sides group by 1, 2, 3
)
select day, queue, array[sum(expected), sum(expected_sum)], array[sum(found), sum(found_sum)],
  coalesce((array_agg(name order by name)
    filter (where (expected, expected_sum) <> (found, found_sum)))[:{most}], '{{}}')
from named group by 1, 2 order by 1, 2
