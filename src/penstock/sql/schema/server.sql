-- Tables of the HTTP server: API keys, the activity log, and the answers to calls that may be repeated.

-- API keys. The table holds the scrypt hash of each secret. Names of live keys are unique, so that a key can also be
-- used as user name and password.
create table penstock.api_key (
  id          text primary key constraint id_is_valid check (id ~ '^[a-z0-9]{12}$'),
  name        text not null constraint name_is_valid check (name ~ '^[A-Za-z0-9._@-]{1,64}$'),
  secret_hash text not null,
  grants      text[] not null constraint some_grant check (cardinality(grants) between 1 and 100),
  created_at  timestamptz not null default clock_timestamp(),
  created_by  text,
  expires_at  timestamptz,
  revoked_at  timestamptz,
  revoked_by  text
);
create unique index api_key_name on penstock.api_key (name) where revoked_at is null;

-- When each API key was last used, to within five minutes. A separate table, so that writing it leaves no dead rows
-- among the keys, which every server reads every few seconds.
create table penstock.api_key_use (
  key_id  text primary key references penstock.api_key on delete cascade,
  used_at timestamptz not null
) with (fillfactor = 50);

-- One secret for all servers on this database: each server can check what another one has signed (sessions of the UI).
create table penstock.server_secret (
  secret   bytea not null,
  only_row boolean primary key default true check (only_row)
);

-- What operators did. Rows are only added.
create table penstock.activity_log (
  id         bigint generated always as identity primary key,
  at         timestamptz not null default clock_timestamp(),
  actor      text not null,
  act        text not null,
  target     text,
  details    jsonb,
  request_id text,
  address    text
);
create index activity_log_at on penstock.activity_log (at);
-- What was done to a message, and where its copies come from.
create index activity_log_message on penstock.activity_log ((details ->> 'id')) where details ? 'id';
create index activity_log_copy on penstock.activity_log ((details ->> 'copy')) where details ? 'copy';

-- The answer to a call with an Idempotency-Key, written in the transaction of the call.
create table penstock.idempotent_answer (
  actor           text not null,
  idempotency_key text not null,
  fingerprint     bytea not null,
  status          smallint not null,
  body            bytea not null,
  made_at         timestamptz not null default clock_timestamp(),
  primary key (actor, idempotency_key)
);
create index idempotent_answer_made_at on penstock.idempotent_answer (made_at);

-- Sessions and sign-in links that were ended. Live ones are signed tokens and need no row.
create table penstock.ended_token (
  id       text primary key,
  ended_at timestamptz not null default clock_timestamp()
);

-- Operators acknowledge and mute findings of the admin UI. A finding is known by its kind and its subject: a queue, a
-- worker, a schedule or a lake. The note counts until its end, and while the finding is not more severe.
create table penstock.finding_note (
  kind     text not null constraint kind_length check (octet_length(kind) between 1 and 100),
  subject  text not null constraint subject_length check (octet_length(subject) <= 1024),
  state    text not null constraint state_is_known check (state in ('acknowledged', 'muted')),
  severity text not null constraint severity_is_known check (severity in ('note', 'warning', 'critical')),
  reason   text not null constraint reason_length check (length(reason) between 1 and 500),
  noted_by text not null,
  noted_at timestamptz not null,
  until_at timestamptz not null,
  primary key (kind, subject)
);
