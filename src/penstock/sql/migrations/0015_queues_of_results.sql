-- Results know the queue of their message, which may leave no history.
-- Clients from version 1 on work with it.
alter table penstock.result add column queue_id integer;
