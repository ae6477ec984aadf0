-- For this transaction only. The next statement reads an index in order. With old statistics of a table that just
-- grew, the planner would sort the whole table for every page.
select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('jit', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('timezone', 'UTC', true)
