-- The services, or the one with a name or id. The address is there for the server, which shows it without its secrets.
select id::text, name, dsn, created_at, created_by, secret, password_file, address_version, checked_at, down_since,
       error_message, status::text
  from penstock.service
 where removed_at is null and (%(service)s::text is null or %(service)s::text in (name, id::text))
 order by created_at, name
