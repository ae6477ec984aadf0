-- The time of the server's clock.
select clock_timestamp() as shown_at
