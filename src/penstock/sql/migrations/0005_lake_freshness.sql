-- A lake says how new the data in each of its layers is.
-- Clients from version 1 on work with it.
alter table penstock.lake
  add column bronze_newest_at timestamptz,
  add column silver_newest_at timestamptz,
  add column gold_newest_at timestamptz,
  add column pending_rows bigint not null default 0;
