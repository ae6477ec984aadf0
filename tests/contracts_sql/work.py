"""What the tests of PGMQ's functions do with the queue `work`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .sessions import Connection, rows, value

Session = Callable[..., Connection]


def send(mq: Connection, message: str = "{}", *more: str) -> int:
    """`more`: further arguments, as SQL."""
    arguments = ", ".join(["'work'", f"'{message}'", *more])
    return int(value(mq, f"select * from pgmq.send({arguments})"))


def read(mq: Connection, vt: int = 30, qty: int = 10) -> list[int]:
    return [row[0] for row in rows(mq, "select msg_id from pgmq.read('work', $1, $2)", vt, qty)]


def peek(mq: Connection) -> list[int]:
    return [row[0] for row in rows(mq, "select msg_id from pgmq.q_work order by msg_id")]


def elsewhere(mq: Connection, session: Session, **options: Any) -> Connection:
    return session(mq.info.dsn, **options)
