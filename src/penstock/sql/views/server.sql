-- The API keys of the HTTP server, without their secrets. Uses api_key_pkey.
create or replace view penstock.api_keys as
select k.id, k.name, k.grants, k.created_at, k.created_by, k.expires_at, k.revoked_at, k.revoked_by,
       k.revoked_at is null and coalesce(k.expires_at > clock_timestamp(), true) as live,
       u.used_at as last_used_at
from penstock.api_key k left join penstock.api_key_use u on u.key_id = k.id;

-- The actions of operators. Uses activity_log_at, activity_log_message and activity_log_copy.
create or replace view penstock.activity as
select a.id, a.at, a.actor, a.act, a.target, a.details, a.request_id, a.address
from penstock.activity_log a;

-- The findings that operators acknowledged or muted, until the end of each note. Uses finding_note_pkey.
create or replace view penstock.finding_notes as
select f.kind, f.subject, f.state, f.severity, f.reason, f.noted_by, f.noted_at, f.until_at
from penstock.finding_note f where f.until_at > clock_timestamp();
