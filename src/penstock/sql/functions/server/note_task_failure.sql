-- Records a failure that may be temporary. The task is tried again. Locks: the row of the task. Uses service_task_pkey.
create or replace function penstock.note_task_failure(task uuid, error_message text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update penstock.service_task set failures = failures + 1, error_message = note_task_failure.error_message
    where id = task;
$$;
