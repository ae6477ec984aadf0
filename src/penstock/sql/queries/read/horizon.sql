-- The holders of the oldest snapshots and transaction ids, the oldest first. PostgreSQL removes no dead rows of this
-- database that these transactions could still see.
--
-- Reads statistics views only, and takes no locks. A user without pg_read_all_stats sees its own sessions. Vacuum is
-- left out, because its snapshot does not keep dead rows. So are the sessions of other databases, which keep dead rows
-- of the shared catalogs only.
with holder as (
  select 'session' as kind, activity.pid, activity.usename::text as username,
         activity.application_name::text as application, activity.state::text as state,
         greatest(age(activity.backend_xmin), age(activity.backend_xid)) as xids,
         activity.xact_start as since, activity.query_start, null::text as name,
         left(activity.query, 4000) as query
    from pg_stat_activity as activity
   where activity.pid <> pg_backend_pid()
     and (activity.datname = current_database() or activity.datname is null)
     and activity.backend_type <> 'walsender'
     and (activity.backend_xmin is not null or activity.backend_xid is not null)
     and not exists (select from pg_stat_progress_vacuum as vacuum where vacuum.pid = activity.pid)
  union all
  select 'prepared transaction', null, prepared.owner::text, null, 'prepared',
         age(prepared.transaction), prepared.prepared, null, prepared.gid, null
    from pg_prepared_xacts as prepared
   where prepared.database = current_database()
  union all
  -- The age of a slot is known in transactions only. A slot without an xmin (logical decoding) keeps dead rows of the
  -- system catalogs, to which every busy queue writes as well.
  select 'replication slot', slot.active_pid, null, null,
         case when slot.active then 'active' else 'inactive' end
           || case when slot.xmin is null then ', catalogs only' else '' end,
         greatest(age(slot.xmin), age(slot.catalog_xmin)), null, null, slot.slot_name::text, null
    from pg_replication_slots as slot
   where slot.xmin is not null or slot.catalog_xmin is not null
  union all
  -- With hot_standby_feedback and no slot, the standby's snapshot shows on its sender.
  select 'standby', sender.pid, sender.usename::text, sender.application_name::text,
         sender.state::text, age(sender.backend_xmin), null, null, sender.client_addr::text, null
    from pg_stat_replication as sender
   where sender.backend_xmin is not null
)
select kind, pid, username, application, state, xids::bigint as xids,
       extract(epoch from clock_timestamp() - since)::double precision as age_seconds,
       query_start, name, query, extract(epoch from since)::text as begun
  from holder
 order by xids desc, since nulls last
 limit 10
