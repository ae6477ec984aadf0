-- What the server's clock shows.
select clock_timestamp() as shown_at
