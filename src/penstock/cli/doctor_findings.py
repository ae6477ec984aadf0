"""The findings of `penstock doctor`, each with a remedy. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.cli.screen import cell, duration
from penstock.db.migrations import MigrationStatus
from penstock.model.monitoring import HorizonHolder
from penstock.spark.java import Java

OLDEST_VERSION, NEWEST_VERSION = 15, 18
# The age above which a transaction counts as long.
PINNED_SECONDS, PINNED_XIDS = 60, 1_000_000
SMALL_BUFFERS_MIB = 128
FEW_LOCKS = 64
# The clocks of synchronized machines differ by milliseconds.
CLOCK_SECONDS = 5
# A running stream reports every ten seconds.
UNSEEN_SECONDS = 300
SPARK_MISSING = 'For the lake: pip install "penstock[spark]"'


@dataclass(frozen=True)
class Finding:
    """One line of the report. `exit_code` is set if Penstock cannot work."""

    check: str
    status: str  # ok, hint, warning or error
    detail: str
    advice: str | None = None
    exit_code: int = 0


def version(server: Mapping[str, Any]) -> Finding:
    major = server["version_number"] // 10000
    name = f"PostgreSQL {server['version']}"
    if major < OLDEST_VERSION:
        advice = f"Upgrade it to PostgreSQL {OLDEST_VERSION} or later."
        return Finding("version", "error", f"{name} is too old", advice, exit_code=1)
    if major > NEWEST_VERSION:
        advice = f"Penstock is tested on {OLDEST_VERSION} to {NEWEST_VERSION}: look for an update."
        return Finding("version", "warning", f"{name} is newer than this Penstock", advice)
    return Finding("version", "ok", name)


def primary(server: Mapping[str, Any]) -> Iterator[Finding]:
    if server["read_only"]:
        advice = "Point the DSN to the primary. A claim writes to the database."
        yield Finding("primary", "error", "this is a read-only standby", advice, exit_code=6)


def schema(status: MigrationStatus) -> Finding:
    if not status.current:
        return Finding(
            "schema", "error", "it does not exist", "Run `penstock migrate up`.", exit_code=7
        )
    if status.current > status.target:
        detail = f"version {status.current}, newer than this client's {status.target}"
        return Finding("schema", "error", detail, "Upgrade Penstock here.", exit_code=7)
    if status.pending:
        names = ", ".join(migration.name for migration in status.pending)
        detail = f"version {status.current} of {status.target}, pending: {names}"
        return Finding("schema", "warning", detail, "Run `penstock migrate up`.")
    return Finding("schema", "ok", f"version {status.current}")


def grants(problems: Sequence[Mapping[str, Any]]) -> Finding:
    """Missing roles, and missing or wrong grants."""
    missing = [each["role_name"] for each in problems if each["problem"] is None]
    wrong = [each for each in problems if each["problem"] is not None]
    if wrong:
        first = f"{wrong[0]['role_name']} {wrong[0]['problem']}"
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        advice = "Run `penstock migrate up` as the owner of the schema."
        return Finding("roles", "warning", first + more, advice)
    if missing:
        creates = " ".join(f"create role {name} nologin;" for name in missing)
        advice = f"As a user that may create roles: {creates} Then run `penstock migrate up`."
        return Finding("roles", "warning", f"missing: {', '.join(missing)}", advice)
    return Finding("roles", "ok", "all roles exist, with their grants")


def clock(read_at: tuple[datetime, datetime, datetime], step_seconds: float) -> Finding:
    """This machine's clock, the server's, this machine's again, and the registers."""
    before, shown, after = read_at
    ahead = (shown - after).total_seconds()
    behind = (before - shown).total_seconds()
    if max(ahead, behind) > CLOCK_SECONDS:
        apart = f"{duration(max(ahead, behind))} {'ahead of' if ahead > behind else 'behind'}"
        detail = f"the server's clock is {apart} the clock of this machine"
        advice = (
            "Correct the wrong clock, for example with NTP. Leases, delays and schedules follow "
            "the server's clock, and end early or late while it is wrong."
        )
        return Finding("clock", "warning", detail, advice)
    if step_seconds > 0:
        detail = f"the server's clock was put back by {duration(step_seconds)}"
        advice = (
            "The next claim of any queue corrects times in the future. "
            "To correct them now: select penstock.maintain();"
        )
        return Finding("clock", "warning", detail, advice)
    return Finding("clock", "ok", "the server's clock agrees with the clock of this machine")


def horizon(server: Mapping[str, Any], holders: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    if not server["sees_all_sessions"]:
        advice = f"As a superuser: grant pg_read_all_stats to {server['username']};"
        yield Finding(
            "horizon", "hint", "this user may not see the sessions of other users", advice
        )
    old = [holder for holder in holders if _is_old(holder)]
    for holder in old:
        yield Finding("horizon", "warning", _held_by(holder), HorizonHolder(**holder).remedy)
    if not old:
        yield Finding("horizon", "ok", "no old transaction pins it")


def _is_old(holder: Mapping[str, Any]) -> bool:
    return (holder["age_seconds"] or 0) >= PINNED_SECONDS or holder["xids"] >= PINNED_XIDS


def _held_by(holder: Mapping[str, Any]) -> str:
    """Enough to identify the process and its owner."""
    words = [f"pinned by {holder['kind']}", holder["name"] or ""]
    if holder["pid"]:
        words.append(f"pid {holder['pid']}")
    if holder["username"]:
        words.append(f"user {holder['username']}")
    if holder["application"]:
        words.append(f"application {holder['application']!r}")
    if holder["state"]:
        words.append(f"({holder['state']})")
    if holder["age_seconds"] is not None:
        words.append(f"for {duration(holder['age_seconds'])},")
    words.append(f"{holder['xids']} transactions back")
    if holder["query_start"]:
        words.append(f"(query started {cell(holder['query_start'])})")
    return " ".join(word for word in words if word)


def settings(found: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Harmful settings. Unknown settings, which a fork of PostgreSQL may lack, are skipped."""
    for name, hurts, status, why, advice in HARMFUL:
        if name in found and hurts(found[name]):
            value = f"{found[name]['setting']}{found[name]['unit'] or ''}"
            yield Finding(name, status, f"{value}: {why}", advice)


def spark(installed: str | None, java: Java | None) -> Finding:
    """Only the lake needs Spark."""
    if installed is None or java is None:
        return Finding("spark", "hint", "not installed", SPARK_MISSING)
    where = f"Java {java.version} from {java.source} ({java.home})"
    return Finding("spark", "ok", f"PySpark {installed} on {where}")


def spark_consumers(rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Streams that hold messages and have not reported for a long time."""
    for row in rows:
        if row["held"] and row["unseen_seconds"] > UNSEEN_SECONDS:
            detail = (
                f"{row['name']} holds {row['held']} messages, "
                f"and was last seen {duration(row['unseen_seconds'])} ago"
            )
            advice = (
                "Run its stream again. If its checkpoint is lost, return them to their queues: "
                f"select penstock.spark_release('{row['name']}');"
            )
            yield Finding("spark consumer", "warning", detail, advice)


def _is(*values: str) -> Any:
    return lambda setting: setting["setting"] in values


def _below(limit: int) -> Any:
    return lambda setting: int(setting["setting"]) < limit


def _mebibytes_below(limit: int) -> Any:
    # PostgreSQL counts its buffers in pages of 8 kB.
    return lambda setting: int(setting["setting"]) * 8 < limit * 1024


HARMFUL = (
    (
        "fsync",
        _is("off"),
        "error",
        "a crash of the machine can destroy the whole database",
        "Turn it on: alter system set fsync = on; select pg_reload_conf();",
    ),
    (
        "full_page_writes",
        _is("off"),
        "warning",
        "a crash during a write can leave torn pages",
        "Turn it on, unless the file system writes pages of 8 kB atomically.",
    ),
    (
        "synchronous_commit",
        _is("off"),
        "warning",
        "a crash can lose the last committed messages, and redeliver acked ones",
        "Leave it on if no message may be lost. Enqueue in batches for speed.",
    ),
    (
        "autovacuum",
        _is("off"),
        "warning",
        "dead rows accumulate, and transaction ids are exhausted in the end",
        "Turn it on: alter system set autovacuum = on; select pg_reload_conf();",
    ),
    (
        "track_activities",
        _is("off"),
        "warning",
        "the sessions that pin the horizon are not visible",
        "Turn it on: alter system set track_activities = on; select pg_reload_conf();",
    ),
    (
        "max_locks_per_transaction",
        _below(FEW_LOCKS),
        "warning",
        "a dump or a migration of many tables can run out of locks",
        f"Set it to {FEW_LOCKS} or more, and restart PostgreSQL.",
    ),
    (
        "shared_buffers",
        _mebibytes_below(SMALL_BUFFERS_MIB),
        "hint",
        "little of the database stays in memory",
        "A quarter of the memory is a common choice. A change needs a restart.",
    ),
    (
        "idle_in_transaction_session_timeout",
        _is("0"),
        "hint",
        "a session that does not commit pins the horizon indefinitely",
        "For example: alter system set idle_in_transaction_session_timeout = '10min';",
    ),
)
