"""`manage.py penstock_schedules`: bring the schedules of the code into the database."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError, CommandParser

from penstock.django import App
from penstock.django.database import async_client
from penstock.django.management.commands.penstock_worker import load_app
from penstock.errors import PenstockError


class Command(BaseCommand):
    help = (
        "Creates the schedules that the project declares with @app.schedule, and changes those "
        "that differ, as a worker does when it starts."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--app",
            default="penstock.django.app",
            help="Path of the App. Default: %(default)s.",
        )
        parser.add_argument(
            "--drop-others",
            action="store_true",
            help="Drop the schedules that this application no longer declares.",
        )

    def handle(self, **options: Any) -> None:
        app = load_app(options["app"])
        try:
            changed, dropped = async_to_sync(_sync)(app, options["drop_others"])
        except PenstockError as error:
            raise CommandError(str(error)) from None
        lines = [f"created or changed schedule {name}" for name in changed]
        lines += [f"dropped schedule {name}" for name in dropped]
        self.stdout.write("\n".join(lines) or "all schedules were up to date")


async def _sync(app: App, drop_others: bool) -> tuple[list[str], list[str]]:
    run = async_client(app.using).run
    changed = await app.schedules.bring(run)
    return changed, await app.schedules.drop_others(run) if drop_others else []
