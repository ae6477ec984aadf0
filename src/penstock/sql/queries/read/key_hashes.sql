-- What a server needs to recognise the holders of live keys. No locks; a scan of a small table.
select id, name, secret_hash, grants, expires_at
  from penstock.api_key
 where revoked_at is null
