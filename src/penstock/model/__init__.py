"""Messages, queues, schedules and services as callers see them, all frozen."""
