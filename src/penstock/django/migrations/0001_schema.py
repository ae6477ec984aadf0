"""Installs schema `penstock`. Later versions of it come with `post_migrate`."""

from typing import Any

from django.db import migrations, models

from penstock.django.conf import penstock_settings
from penstock.django.schema import install


def install_schema(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.alias == penstock_settings().database:
        install(schema_editor.connection)


class Migration(migrations.Migration):
    initial = True
    # Each step of the schema has its own transaction.
    atomic = False
    dependencies = []
    operations = [
        # To reverse it removes nothing: messages are not dropped by a migration.
        migrations.RunPython(install_schema, migrations.RunPython.noop, elidable=False),
        migrations.CreateModel(
            name="Access",
            fields=[("id", models.BigAutoField(primary_key=True, serialize=False))],
            options={
                "managed": False,
                "default_permissions": (),
                "permissions": (
                    ("read_queues", "Can read queues and messages"),
                    ("operate_queues", "Can change queues and messages"),
                    ("administer_queues", "Can do everything in the admin UI of Penstock"),
                ),
            },
        ),
    ]
