-- API keys show when they were last used. The page of a message shows what operators did to it.
-- Clients from version 1 on work with it.
create table penstock.api_key_use (
  key_id  text primary key references penstock.api_key on delete cascade,
  used_at timestamptz not null
) with (fillfactor = 50);
create index activity_log_message on penstock.activity_log ((details ->> 'id')) where details ? 'id';
create index activity_log_copy on penstock.activity_log ((details ->> 'copy')) where details ? 'copy';
