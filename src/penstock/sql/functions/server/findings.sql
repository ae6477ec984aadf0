-- Acknowledges or mutes findings of one kind until a time, at most 90 days ahead, and returns how many. A later note
-- replaces an earlier one. Deletes notes that have ended. Locks: the rows. Uses finding_note_pkey.
create or replace function penstock.note_findings(kind text, subjects text[], state text, severity text, reason text,
  until_at timestamptz, noted_by text) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  n      integer;
begin
  if note_findings.state not in ('acknowledged', 'muted') or note_findings.state is null then
    perform penstock._fail_value('state', note_findings.state, 'acknowledged or muted');
  elsif note_findings.severity not in ('note', 'warning', 'critical') or note_findings.severity is null then
    perform penstock._fail_value('severity', note_findings.severity, 'note, warning or critical');
  elsif length(note_findings.reason) not between 1 and 500 or note_findings.reason is null then
    perform penstock._fail_value('reason', left(note_findings.reason, 50), '1 to 500 characters');
  elsif note_findings.until_at not between now_at and now_at + interval '90 days' or note_findings.until_at is null then
    perform penstock._fail_value('until_at', note_findings.until_at::text, 'a time within the next 90 days');
  elsif cardinality(subjects) not between 1 and 1000 or subjects is null then
    perform penstock._fail_value('subjects', cardinality(subjects)::text, '1 to 1000 subjects');
  end if;
  delete from penstock.finding_note f where f.until_at <= now_at;
  insert into penstock.finding_note (kind, subject, state, severity, reason, noted_by, noted_at, until_at)
  select note_findings.kind, s.subject, note_findings.state, note_findings.severity, note_findings.reason,
    note_findings.noted_by, now_at, note_findings.until_at
  from (select distinct u as subject from unnest(subjects) u order by u) s
  on conflict (kind, subject) do update
  set state = excluded.state, severity = excluded.severity, reason = excluded.reason, noted_by = excluded.noted_by,
      noted_at = excluded.noted_at, until_at = excluded.until_at;
  get diagnostics n = row_count;
  return n;
end $$;

-- Takes back the notes of findings of one kind, and returns how many there were. Locks: the rows. Uses
-- finding_note_pkey.
create or replace function penstock.clear_findings(kind text, subjects text[]) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  n integer;
begin
  delete from penstock.finding_note f where f.kind = clear_findings.kind and f.subject = any (subjects);
  get diagnostics n = row_count;
  return n;
end $$;
