-- What the HTTP server keeps: who may call it, what operators did, and the answers of calls that may be repeated.

-- An API key. Its secret is known to its holder only; here is the scrypt hash. Names of live keys are unique, so
-- that a key can be used as user and password too.
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

-- One secret for all servers on this database: what they sign (sessions of the UI), each of them can check.
create table penstock.server_secret (
  secret   bytea not null,
  only_row boolean primary key default true check (only_row)
);

-- What operators did. Append-only.
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

-- The answer to a call with an Idempotency-Key, written in the transaction of what the call did.
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
