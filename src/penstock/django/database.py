"""Clients on the connections of Django.

Each thread has its own connection, as everywhere in Django. A statement is part of the transaction
that is open there, such as that of `transaction.atomic`.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import psycopg
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client
from penstock.commands.arguments import UNSET
from penstock.commands.command import Command
from penstock.django.conf import penstock_settings

T = TypeVar("T")
_PARAMETERS: Final = frozenset(each.keyword.decode() for each in Conninfo.get_defaults())


def client(using: str | None = None) -> Client:
    """Return a client on the connection that Django has in this thread.

        with transaction.atomic():
            order.save()
            client().enqueue("orders", {"id": order.pk})

    Make one for each use.

    Args:
        using: The alias of the database. The default is that of `PENSTOCK["DATABASE"]`.

    Returns:
        The client. Do not use it in another thread.
    """
    return _DjangoClient(_wrapper(using))


def async_client(using: str | None = None) -> AsyncClient:
    """As `client`, for async code. Statements run in the thread of Django's ORM.

    Its verbs that take several statements, such as `enqueue_many`, open their own connections.
    """
    return _AsyncDjangoClient(using)


def dsn(using: str | None = None) -> str:
    """The DSN of a database in `DATABASES`, for connections outside of Django."""
    wrapper = _wrapper(using)
    given = wrapper.get_connection_params()
    found = {name: value for name, value in given.items() if name in _PARAMETERS}
    role = wrapper.settings_dict["OPTIONS"].get("assume_role")
    if role:
        escaped = role.replace("\\", "\\\\").replace(" ", "\\ ")
        found["options"] = f"{found.get('options', '')} -c role={escaped}".strip()
    return make_conninfo(**found)


def driver_connection(wrapper: BaseDatabaseWrapper) -> psycopg.Connection[Any]:
    """The psycopg connection of a thread, connected if it was not.

    TransactionManagementError in a transaction that has failed.
    """
    wrapper.validate_no_broken_transaction()
    wrapper.ensure_connection()
    connection = wrapper.connection
    if not isinstance(connection, psycopg.Connection):
        raise ImproperlyConfigured(
            f"Database {wrapper.alias!r} does not use psycopg 3. Penstock needs the engine "
            "django.db.backends.postgresql with psycopg 3."
        )
    return connection


def _wrapper(using: str | None) -> BaseDatabaseWrapper:
    return connections[using or penstock_settings().database]


class _DjangoClient(Client):
    def __init__(self, wrapper: BaseDatabaseWrapper) -> None:
        self._wrapper = wrapper
        super().__init__(connection=driver_connection(wrapper))

    def run(self, command: Command[T], connection: Any = UNSET) -> T:
        try:
            return super().run(command, connection)
        except Exception:
            # As Django's own cursor does: the connection is checked before its next use.
            self._wrapper.errors_occurred = True
            raise


class _AsyncDjangoClient(AsyncClient):
    def __init__(self, using: str | None) -> None:
        self._using = using
        super().__init__(dsn(using), min_size=0)

    async def run(self, command: Command[T], connection: Any = UNSET) -> T:
        if connection is not UNSET:
            return await super().run(command, connection)
        return await sync_to_async(_run)(self._using, command)


def _run(using: str | None, command: Command[T]) -> T:
    return client(using).run(command)
