-- A bulk act knows how many messages matched when it was requested, so that its progress has a total.
-- Clients from version 1 on work with it.
alter table penstock.bulk_act add column expected bigint;
