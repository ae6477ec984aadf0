"""Keeps the connections of Django usable in a worker, where no request starts or ends.

Django closes old or broken connections at the start and end of a request. A worker does the same
around each handler. It also closes connections that the server has closed, for example in a
restart, so that no handler fails.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import psycopg
from asgiref.sync import sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from penstock.db.execute import check
from penstock.worker.delivery import Delivery
from penstock.worker.handlers import Call


def close_stale_connections() -> None:
    """Close the connections of this thread that are too old, broken, or closed by the server."""
    for wrapper in _idle_connections():
        wrapper.close_if_unusable_or_obsolete()
        connection = wrapper.connection
        if isinstance(connection, psycopg.Connection):
            try:
                check(connection)
            except psycopg.Error:
                wrapper.close()


def close_old_connections() -> None:
    """As at the end of a request."""
    for wrapper in _idle_connections():
        wrapper.close_if_unusable_or_obsolete()


def _idle_connections() -> list[BaseDatabaseWrapper]:
    """The connections of this thread outside of transactions. In a TestCase all are in one."""
    found = connections.all(initialized_only=True)
    return [wrapper for wrapper in found if not wrapper.in_atomic_block]


# Async handlers and middleware use the ORM in the one thread that asgiref has for it. Until a
# connection is opened there, a handler costs no call into that thread. asgiref does not say which
# thread it is, so any connection counts that was opened outside of handlers in threads.
_in_async_handler: Final[ContextVar[bool]] = ContextVar("penstock_async_handler", default=False)
_in_thread_handler: Final[ContextVar[bool]] = ContextVar("penstock_thread_handler", default=False)
_shared_thread_connected = False


def _note_connection(**_: Any) -> None:
    global _shared_thread_connected
    elsewhere = threading.current_thread() is not threading.main_thread()
    if _in_async_handler.get() or (elsewhere and not _in_thread_handler.get()):
        _shared_thread_connected = True


@contextmanager
def fresh_connections() -> Iterator[None]:
    """For a handler that runs in this thread."""
    token = _in_thread_handler.set(True)
    close_stale_connections()
    try:
        yield
    finally:
        close_old_connections()
        _in_thread_handler.reset(token)


connection_created.connect(_note_connection)


def with_fresh_connections(call: Call, *, has_middleware: bool) -> Call:
    """A handler on the event loop, with work before and after it in the thread of the ORM.

    Middleware runs on the event loop around handlers in threads, too.
    """

    async def run(delivery: Delivery) -> Any:
        if delivery._handler is not None and not delivery._handler.is_async:
            if not has_middleware:
                return await call(delivery)
        else:
            _in_async_handler.set(True)
        if _shared_thread_connected:
            await sync_to_async(close_stale_connections)()
        try:
            return await call(delivery)
        finally:
            if _shared_thread_connected:
                await sync_to_async(close_old_connections)()

    return run
