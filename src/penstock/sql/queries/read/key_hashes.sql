-- The hashes by which a server recognizes live keys, with their grants. No locks. Scans a small table.
select id, name, secret_hash, grants, expires_at
  from penstock.api_key
 where revoked_at is null
