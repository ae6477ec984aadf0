"""The connection pools of psycopg_pool, for processes that fork."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
import psycopg_pool
from psycopg_pool import AsyncConnectionPool

__all__ = ["AsyncConnectionPool", "ConnectionPool"]

C = TypeVar("C", bound=psycopg.Connection[Any])


class ConnectionPool(psycopg_pool.ConnectionPool[C]):
    """A pool whose finalizer does nothing in a forked process and while the interpreter ends.

    psycopg's finalizer waits for the threads of the pool. Only the parent process has them, and
    they do not run while the interpreter ends. The finalizer of its async pool waits for nothing.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.made_in_process = os.getpid()
        super().__init__(*arguments, **options)

    # The defaults keep these functions: when the interpreter ends, the modules are emptied first.
    def __del__(
        self,
        getpid: Callable[[], int] = os.getpid,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
    ) -> None:
        if getpid() == self.made_in_process and not is_finalizing():
            super().__del__()
