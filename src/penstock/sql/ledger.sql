-- What the migrator remembers of a database. It runs this once, before the first migration, and only if
-- penstock.migration is missing: so a user who may not create schemas can still ask for the status.
create schema if not exists penstock;

create table penstock.migration (
  version    integer primary key,
  name       text not null,
  checksum   text not null,
  applied_at timestamptz not null default clock_timestamp()
);
comment on table penstock.migration is 'One row for each migration that ran here.';

-- Functions and views have no versions of their own: they are laid down anew whenever their text changed.
create table penstock.migration_code (
  checksum   text not null,
  version    integer not null,
  applied_at timestamptz not null default clock_timestamp(),
  only_row   boolean primary key default true check (only_row)
);
comment on table penstock.migration_code is 'Which text of the functions and views this database has.';
