-- Messages that an import has put into a queue and not yet removed from the source (or never will, with --keep). After
-- an import was killed, the next one knows which rows to skip.
create table penstock.import_row (
  source text not null,
  key    text not null,
  primary key (source, key)
);
