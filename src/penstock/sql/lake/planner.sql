-- For this transaction only. What follows walks an index in order; statistics of a table that just grew would talk the
-- planner into sorting all of it for every page.
select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('timezone', 'UTC', true)
