"""Where the tasks of a Django project are enqueued: on Django's own connection."""

from __future__ import annotations

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands.write.results import TaskOutcome, get_results
from penstock.django import database
from penstock.tasks.clients import AppClients


class DjangoClients(AppClients):
    """Enqueues in the transaction that is open on Django's connection, in handlers too.

    Results are awaited on other connections, because Django's cannot listen.
    """

    around_child_call = "penstock.django.process:around_call"

    def __init__(self, using: str | None) -> None:
        self.using = using
        super().__init__(None)

    # Looked up at each use: the test runner changes the name of the database.
    @property
    def dsn(self) -> str | None:
        return database.dsn(self.using)

    @dsn.setter
    def dsn(self, value: str | None) -> None:
        """The setting `DATABASES` decides."""

    @property
    def async_client(self) -> AsyncClient:
        return database.async_client(self.using)

    @property
    def sync_client(self) -> Client:
        return database.client(self.using)

    async def wait(self, id: int, ends_at: float | None) -> TaskOutcome | None:
        found = (await self.async_client.run(get_results([id]))).get(id)
        return found if found is not None else await super().wait(id, ends_at)

    def wait_sync(self, id: int, ends_at: float | None) -> TaskOutcome | None:
        """The transaction that is open here may see a result that others do not see yet."""
        found = self.sync_client.run(get_results([id])).get(id)
        return found if found is not None else super().wait_sync(id, ends_at)
