"""A child process that runs tasks of a Django project. Importing this module sets Django up."""

from __future__ import annotations

import django
from penstock.django.connections import fresh_connections

django.setup()

around_call = fresh_connections
