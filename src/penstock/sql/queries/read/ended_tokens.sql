-- The ids of signed tokens that were ended within the last day.
select id from penstock.ended_token
