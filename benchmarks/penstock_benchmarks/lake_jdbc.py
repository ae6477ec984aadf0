"""The other side of `bench lake`: what Spark does by itself, with the JDBC driver of PostgreSQL."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from penstock_benchmarks.errors import BenchError

# Without a fetch size the driver would hold all rows of a partition in memory at once.
FETCH_SIZE = "10000"
_COLUMNS = (
    *("id", "queue", "state", "enqueued_at", "first_claimed_at", "last_claimed_at", "finished_at"),
    *("attempts::integer", "max_attempts::integer", "priority::integer", "worker", "key"),
    *("group_key", "last_error", "payload_bytes_count", "headers_bytes_count"),
    *("headers::text", "payload::text", "payload_bytes", "xid::text::bigint as xid"),
)


def require_jar(jar: Path, figures: Collection[str]) -> None:
    """Raises BenchError if one of these figures needs the driver, and it is missing."""
    if any(figure.endswith("_over_jdbc") for figure in figures) and not jar.is_file():
        raise BenchError(
            f"there is no JDBC driver in {jar}",
            hint="`make bench-lake` fetches it, and --jdbc-jar names one. With --only, figures "
            "whose names do not end in _over_jdbc are measured without it.",
        )


@dataclass(frozen=True)
class Jdbc:
    dsn: str
    jar: Path

    def read_history(self, spark: Any, low: int, high: int, partitions: int) -> Any:
        """The columns that our source reads, in ranges of ids."""
        table = f"(select {', '.join(_COLUMNS)} from penstock.history_log) history"
        properties = {**self._login, "fetchsize": FETCH_SIZE}
        return spark.read.jdbc(
            self._url, table, "id", low, high + 1, partitions, properties=properties
        )

    def append(self, frame: Any, table: str) -> None:
        # `unspecified` lets PostgreSQL make jsonb of the text.
        login = {**self._login, "stringtype": "unspecified"}
        frame.write.jdbc(self._url, table, mode="append", properties=login)

    @property
    def _url(self) -> str:
        where = conninfo_to_dict(self.dsn)
        return f"jdbc:postgresql://{where['host']}:{where['port']}/{where['dbname']}"

    @property
    def _login(self) -> dict[str, str]:
        where = conninfo_to_dict(self.dsn)
        return {
            "user": str(where["user"]),
            "password": str(where["password"]),
            "driver": "org.postgresql.Driver",
        }
