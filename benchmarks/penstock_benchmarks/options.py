"""What the caller chose."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """`seconds` None is the full form: as long as a benchmark needs to be trusted."""

    seconds: float | None = None
    clients: int = 8
    batch: int = 10
    messages: int = 0
    consumers: int = 500
    only: tuple[str, ...] = ()
    vacuum_plain: bool = False
    plain_order: str = "visible_at"
    jdbc_jar: str = "/usr/share/java/postgresql.jar"
    rounds: int = 4
    short: bool = False
    long: bool = False
    conf: tuple[str, ...] = ()
