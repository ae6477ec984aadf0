-- Whether the role may rewrite every table of this database, with the names of both. Reads the catalog.
select pg_has_role(d.datdba, 'usage'), d.datname, current_user
from pg_database d where d.datname = current_database()
