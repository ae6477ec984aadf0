-- The findings that operators acknowledged or muted. No locks.
select kind, subject, state, severity, reason, noted_by, noted_at, until_at
  from penstock.finding_notes
