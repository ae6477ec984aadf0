"""The errors of Penstock: their classes, their codes, and the translation of database errors."""

from penstock.errors.classes import *  # noqa: F403
from penstock.errors.classes import ErrorRow as ErrorRow
from penstock.errors.database import CHECK_DSN as CHECK_DSN
from penstock.errors.database import MIGRATE as MIGRATE
from penstock.errors.database import POOLER as POOLER
from penstock.errors.database import RESOURCES as RESOURCES
from penstock.errors.database import from_database_error as from_database_error
from penstock.errors.database import translated as translated
from penstock.errors.table import ERRORS as ERRORS

# Tracebacks, pickles and stored errors show the public name.
for _row in ERRORS:
    _row.error.__module__ = __name__
