-- The version of the lake whose gold is in PostgreSQL, if only one lake has published gold. Scans the lakes.
select l.published_version from penstock.lakes l
where l.name = %s and l.published_version > 0
  and not exists (select from penstock.lakes o where o.name <> l.name and o.published_version > 0)
