"""The options of the source, parsed and checked together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from penstock.db.embedded import connect_dsn
from penstock.errors import InvalidValueError
from penstock.settings import Settings, normalise_dsn
from penstock.spark.naming import closest, name_list, queue_expression
from penstock.spark.table_columns import CLAIMED, TABLES, Table

DEFAULT_SERVICE: Final = "local"
SOURCE_OPTIONS: Final = frozenset(
    {
        *("dsn", "service", "table", "queue", "queues", "columns", "initial"),
        *("payload", "max_rows_per_batch", "rows_per_partition", "consumer", "pushdown"),
    }
)
# Options that Spark itself adds.
_SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})
_CONSUMER_NAME: Final = re.compile(r"[a-z0-9._-]{1,128}")  # the rules of queue names
_SERVICE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Service:
    """A PostgreSQL to read from or write to. Without a DSN, the embedded one."""

    name: str
    dsn: str | None

    def address(self) -> str:
        """Evaluated where it is used, because that process keeps the embedded server running."""
        if self.dsn is not None:
            return self.dsn
        return connect_dsn(Settings(dsn=None, home=Settings.from_environment().home))


@dataclass(frozen=True, slots=True)
class SourceOptions:
    services: tuple[Service, ...]
    table: Table
    columns: tuple[str, ...]
    queues: str | None  # a regular expression
    queues_text: str  # as the user wrote it
    initial: str  # earliest, latest, or a time in ISO 8601
    variant: bool
    max_rows_per_batch: int
    rows_per_partition: int
    consumer: str | None  # None: the checkpoint gets a unique name
    pushdown: bool

    @property
    def claims(self) -> bool:
        return self.table is CLAIMED

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SourceOptions:
        check_names(options, SOURCE_OPTIONS)
        table = _table(options)
        # A batch of claimed messages is acked as a whole, and must fit into the memory of a task.
        batch, partition = (100_000, 10_000) if table is CLAIMED else (500_000, 50_000)
        return cls(
            services=read_services(options),
            table=table,
            columns=name_list(options.get("columns", "")),
            queues=_queues(options),
            queues_text=options.get("queue") or options.get("queues", ""),
            initial=_initial(options.get("initial", "earliest")),
            variant=choice(options, "payload", ("string", "variant")) == "variant",
            max_rows_per_batch=whole(options, "max_rows_per_batch", batch, 1, 100_000_000),
            rows_per_partition=whole(options, "rows_per_partition", partition, 1, 10_000_000),
            consumer=_consumer(options),
            pushdown=choice(options, "pushdown", ("off", "on")) == "on",
        )


def check_names(options: Mapping[str, str], known: frozenset[str]) -> None:
    """Refuses an unknown name. Otherwise a typing error would not be noticed."""
    for name in options:
        plain = name.lower()
        if plain in known or plain in _SPARK_OPTIONS or plain.startswith("dsn."):
            continue
        raise InvalidValueError(
            f"{name!r} is not an option{closest(plain, known)}",
            hint=f"Allowed: {', '.join(sorted(known))}, and dsn.NAME for a service.",
            field=name,
        )


def read_services(options: Mapping[str, str]) -> tuple[Service, ...]:
    """`service` names them. Their addresses are in `dsn.NAME` or in PENSTOCK_DSN_NAME."""
    names = name_list(options.get("service", "")) or (DEFAULT_SERVICE,)
    if len(set(names)) < len(names):
        raise bad_value("service", options["service"], "each name once")
    return tuple(_service(name, options, alone=len(names) == 1) for name in names)


def _service(name: str, options: Mapping[str, str], *, alone: bool) -> Service:
    if not _SERVICE_NAME.fullmatch(name):
        allowed = "names of lowercase letters, digits, - and _, separated by commas"
        raise bad_value("service", name, allowed)
    variable = f"PENSTOCK_DSN_{name.upper().replace('-', '_')}"
    if dsn := options.get(f"dsn.{name}"):
        return Service(name, normalise_dsn(dsn, f"option dsn.{name}"))
    if dsn := os.environ.get(variable, "").strip():
        return Service(name, normalise_dsn(dsn, variable))
    if not alone:
        raise InvalidValueError(
            f"service {name!r} has no address",
            hint=f"Set option dsn.{name}, or {variable} in the environment of the driver.",
            field="service",
            value=name,
        )
    return Service(name, Settings.from_environment(options.get("dsn")).dsn)


def _table(options: Mapping[str, str]) -> Table:
    name = options.get("table")
    if name is None and ("queue" in options or "queues" in options):
        return CLAIMED
    if name is None:
        raise InvalidValueError(
            "the source needs the option table or queue",
            hint=f"Set option table to {', '.join(TABLES)}, or queue to the name of a queue.",
            field="table",
        )
    if name not in TABLES:
        near = closest(name, TABLES)
        raise bad_value("table", name, f"{', '.join(TABLES)}{near}")
    if "queue" in options:
        raise InvalidValueError(
            "the options table and queue exclude each other",
            hint="table reads and changes nothing; queue claims. To read only some queues of a "
            "table, name them in queues.",
            field="queue",
        )
    return TABLES[name]


def _consumer(options: Mapping[str, str]) -> str | None:
    name = options.get("consumer")
    if name is not None and "table" in options:
        raise InvalidValueError(
            "the options table and consumer exclude each other",
            hint="A consumer claims, and belongs to queue or queues.",
            field="consumer",
        )
    if name is not None and not _CONSUMER_NAME.fullmatch(name):
        allowed = "1 to 128 lowercase letters, digits, -, _ and ."
        raise bad_value("consumer", name, allowed)
    return name


def _queues(options: Mapping[str, str]) -> str | None:
    if "queue" in options and "queues" in options:
        raise InvalidValueError(
            "the options queue and queues exclude each other",
            hint="queue names one queue; queues takes several, and patterns.",
            field="queues",
        )
    if "queue" in options:
        return queue_expression([_queue(options["queue"])])
    patterns = name_list(options.get("queues", ""))
    if "queues" in options and not patterns:
        raise bad_value("queues", options["queues"], "names or patterns, separated by commas")
    return queue_expression(patterns) if patterns else None


def _queue(name: str) -> str:
    if not _CONSUMER_NAME.fullmatch(name) or name.endswith(".dlq"):
        raise bad_value("queue", name, "the name of one queue; patterns go into queues")
    return name


def _initial(text: str) -> str:
    if text in ("earliest", "latest"):
        return text
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        allowed = "earliest, latest, or a time such as 2026-01-31T12:00:00Z"
        raise bad_value("initial", text, allowed) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


def choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """The first allowed value is the default."""
    value = options.get(name, allowed[0])
    if value not in allowed:
        raise bad_value(name, value, f"{', '.join(allowed)}{closest(value, allowed)}")
    return value


def whole(options: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = options.get(name, str(default))
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise bad_value(name, text, f"a whole number from {low} to {high}")
    return value


def bad_value(field: str, value: str, allowed: str) -> InvalidValueError:
    return InvalidValueError(
        f"{field} is {value!r}; allowed: {allowed}", field=field, value=value, allowed=allowed
    )
