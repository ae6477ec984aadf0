-- What the migrator remembers about a database. The migrator runs this file before the first migration, if
-- penstock.migration is missing. So a user who may not create schemas can still ask for the status.
create schema if not exists penstock;

create table penstock.migration (
  version      integer primary key,
  name         text not null,
  checksum     text not null,
  applied_at   timestamptz not null default clock_timestamp(),
  -- the version of the oldest clients that work with the schema after it; null: clients of this version only
  clients_from integer
);
comment on table penstock.migration is 'One row for each migration that ran here.';

-- Functions and views have no versions. The migrator replaces them whenever their text has changed.
create table penstock.migration_code (
  checksum   text not null,
  version    integer not null,
  applied_at timestamptz not null default clock_timestamp(),
  only_row   boolean primary key default true check (only_row)
);
comment on table penstock.migration_code is 'Which text of the functions and views this database has.';

-- The contracts that were installed on request (`penstock migrate up --with pgmq`).
create table penstock.migration_contract (
  name       text primary key,
  checksum   text not null,
  version    integer not null,
  applied_at timestamptz not null default clock_timestamp()
);
comment on table penstock.migration_contract is 'Which text of each optional contract this database has.';
