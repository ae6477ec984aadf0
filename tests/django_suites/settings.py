"""The settings of a project that has only Penstock in it."""

import os

from psycopg.conninfo import conninfo_to_dict

_dsn = conninfo_to_dict(os.environ["DATABASE_URL"])
SECRET_KEY = "for tests"
USE_TZ = True
INSTALLED_APPS = ["penstock.django"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _dsn["dbname"],
        "USER": _dsn["user"],
        "HOST": _dsn["host"],
        "PORT": str(_dsn["port"]),
    }
}
BACKEND = "penstock.django.backend.PenstockBackend"
TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": ["default", "queue-1"]}}
# The other backends try a task once.
_ONCE = {"max_attempts": 1}
PENSTOCK = {"QUEUES": {"default": _ONCE, "queue-1": _ONCE, "queue_1": _ONCE}}
