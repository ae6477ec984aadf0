"""The permissions of the admin UI. Messages are not models."""

from __future__ import annotations

from django.db import models


class Access(models.Model):
    """Has no table. Permissions need a model that they belong to."""

    id: models.BigAutoField[int, int] = models.BigAutoField(primary_key=True)

    class Meta:
        managed = False
        default_permissions = ()
        permissions = (
            ("read_queues", "Can read queues and messages"),
            ("operate_queues", "Can change queues and messages"),
            ("administer_queues", "Can do everything in the admin UI of Penstock"),
        )
