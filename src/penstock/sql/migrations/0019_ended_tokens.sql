-- Sessions and sign-in links of the HTTP server that were ended. They are signed, so that nothing is kept of those that live.
create table penstock.ended_token (
  id       text primary key,
  ended_at timestamptz not null default clock_timestamp()
);
