-- Push delivery: a subscription sends the messages of a queue to an HTTP endpoint.
-- Clients from version 1 on work with it.
create table penstock.subscription (
  name              text primary key constraint name_is_valid check (name ~ '^[a-z0-9._-]{1,128}$'),
  queue             text not null constraint one_for_each_queue unique,
  url               text not null constraint url_is_http check (url ~ '^https?://[!-~]+$' and length(url) <= 2048),
  secret            text,                                     -- signs the requests; encrypted
  concurrency       integer not null default 10 constraint concurrency_range check (concurrency between 1 and 1000),
  timeout_seconds   integer not null default 15 constraint timeout_range check (timeout_seconds between 1 and 300),
  enabled           boolean not null default true,
  disabled_reason   text,
  version           integer not null default 1,
  delivered         bigint not null default 0,
  failed            bigint not null default 0,
  last_delivered_at timestamptz,
  last_error        text,
  last_error_at     timestamptz,
  created_by        text,
  created_at        timestamptz not null default clock_timestamp(),
  updated_at        timestamptz not null default clock_timestamp()
);
