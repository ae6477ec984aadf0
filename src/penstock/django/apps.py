"""The configuration of the Django app."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from django.apps import AppConfig
from django.core import checks
from django.db import connections
from django.db.models.signals import post_migrate


class PenstockConfig(AppConfig):
    name = "penstock.django"
    label = "penstock"
    verbose_name = "Penstock"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from penstock.django import checks as ours

        checks.register(ours.check_settings, "penstock")
        # Not in other runs: `migrate` would warn of the old schema that it is about to upgrade.
        checks.register(ours.check_schema, "penstock", checks.Tags.database, deploy=True)
        post_migrate.connect(_bring_up_to_date, sender=self)


def _bring_up_to_date(
    using: str, verbosity: int = 1, stdout: TextIO = sys.stdout, **_: Any
) -> None:
    """After each `migrate`: a new version of the package has functions that the schema lacks."""
    from penstock.django.conf import penstock_settings
    from penstock.django.schema import create_queues, install

    if using != penstock_settings().database:
        return
    steps = install(connections[using])
    queues = create_queues(using)
    if verbosity >= 1 and steps:
        stdout.write(f"  Brought schema penstock to version {steps[-1].version}\n")
    if verbosity >= 1 and queues:
        stdout.write(f"  Created queues: {', '.join(queues)}\n")
