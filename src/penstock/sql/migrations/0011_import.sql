-- What an import has put into a queue and not yet taken out of its source, or never will (with --keep): whichever of the two
-- databases an import is killed over, the next one knows what it need not bring again.
create table penstock.import_row (
  source text not null,
  key    text not null,
  primary key (source, key)
);
