"""The connection pools of psycopg_pool, for processes that fork."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import psycopg
import psycopg_pool
from psycopg_pool import AsyncConnectionPool

__all__ = ["AsyncConnectionPool", "ConnectionPool"]

C = TypeVar("C", bound=psycopg.Connection[Any])


class ConnectionPool(psycopg_pool.ConnectionPool[C]):
    """A pool whose finalizer does nothing in a forked process.

    psycopg's finalizer waits for the threads of the pool, which only the parent process has. The
    finalizer of its async pool waits for nothing.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.made_in_process = os.getpid()
        super().__init__(*arguments, **options)

    def __del__(self) -> None:
        if os.getpid() == self.made_in_process:
            super().__del__()
