"""Installs and upgrades schema `penstock` in a database, and reports its version.

Migrations (`sql/migrations/NNNN_name.sql`) run once each, in order, each in one transaction with
its row in the ledger. If `up` is interrupted, the next `up` continues. Functions and views
(`sql/generated`) are replaced after them, in one transaction, if their text differs from that in
the database. The requested contracts follow, each in its own schema. Roles may be created later
than the schema, so `up` makes missing grants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from penstock.db.migration_plan import CODE_NAME, CONTRACTS, Migration, Plan, Step
from penstock.errors import MigrationError, SchemaNewerError

# Any number works if every version of Penstock has the same: "penstock" in ASCII.
LOCK: Final = 0x70656E73746F636B
ENCODING: Final = "UTF8"


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """`current` is None without a schema. `pending` has the steps that `up` would take, and
    `contracts` the installed contracts."""

    current: int | None
    target: int
    pending: list[Migration]
    contracts: list[str]


@dataclass(frozen=True, slots=True)
class _Ledger:
    """The steps that the database has, by its ledger."""

    migrations: list[Migration]
    code: Migration | None
    contracts: dict[str, Migration]

    @property
    def version(self) -> int | None:
        return self.migrations[-1].version if self.migrations else None


class Migrator:
    """Works on the caller's connection. `directory` replaces the SQL files of the package.

    `contracts` are installed too. Installed contracts are always kept up to date.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        directory: Traversable | None = None,
        contracts: Iterable[str] = (),
    ) -> None:
        self._connection = connection
        self._plan = Plan(directory)
        self._wanted = _checked(contracts)

    def status(self) -> MigrationStatus:
        with self._connection.transaction():
            ledger = self._read_ledger()
            pending = [step.migration for step in self._pending(ledger)]
            if not pending and self._lacks_grants():
                pending = [self._plan.grants(ledger.contracts).migration]
        return MigrationStatus(ledger.version, self._plan.target, pending, sorted(ledger.contracts))

    def up(self) -> list[Migration]:
        """Applies the missing steps, and returns them. Several processes may call it at once."""
        applied = []
        while step := self._step():
            applied.append(step)
        if grants := self._grant():
            applied.append(grants)
        return applied

    @staticmethod
    def sql(directory: Traversable | None = None, contracts: Iterable[str] = ()) -> str:
        """The whole schema as a script for psql. Nothing of it runs if the schema exists."""
        return _script(Plan(directory), _checked(contracts))

    def _step(self) -> Migration | None:
        """Applies the first pending step and returns it, or None if there is none."""
        with self._locked():
            ledger = self._read_ledger()
            self._check_release(ledger)
            if (ledger.version or 0) > self._plan.target:
                raise SchemaNewerError(
                    f"the database has schema version {ledger.version}, "
                    f"this Penstock knows versions up to {self._plan.target}",
                    hint="Upgrade Penstock. The database was not changed.",
                )
            step = next(self._pending(ledger), None)
            if step is not None:
                self._apply(step, record=_record(step, self._plan))
            return step.migration if step else None

    def _grant(self) -> Migration | None:
        """Creates missing roles and grants.

        Existing grants are left alone, because repeating one makes every session plan its
        statements again.
        """
        with self._locked():
            if not self._lacks_grants():
                return None
            step = self._plan.grants(self._read_ledger().contracts)
            self._apply(step)
            return step.migration

    def _lacks_grants(self) -> bool:
        """Whether this user could create what is missing. Not every user may create roles."""
        if self._value("select to_regprocedure('penstock.check_grants()') is null"):
            return False
        return self._value(
            "select exists (select from penstock.check_grants() g where g.problem is not null or "
            "(select r.rolsuper or r.rolcreaterole from pg_roles r where r.rolname = current_user))"
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One transaction, serialized with all other migrators of this database."""
        outermost = self._connection.info.transaction_status == TransactionStatus.IDLE
        with self._connection.transaction():
            if outermost:
                # A snapshot from before the wait for the lock would show an outdated ledger.
                self._run("set transaction isolation level read committed")
            self._run(_LOCK_SQL)
            if not self._has("migration"):
                self._check_encoding()
                self._run(self._plan.ledger)
            yield

    def _check_encoding(self) -> None:
        """Before anything is created, because any text may be a key or a payload."""
        if not self._value(f"select getdatabaseencoding() = '{ENCODING}'"):
            encoding = self._connection.info.parameter_status("server_encoding")
            raise MigrationError(
                f"database {self._connection.info.dbname} has the encoding {encoding}, "
                f"Penstock needs {ENCODING}",
                hint=f"Nothing was created. {_ENCODING_HINT}",
            )

    def _apply(self, step: Step, record: str | None = None) -> None:
        try:
            self._run(_SESSION_SQL + step.sql)
        except psycopg.Error as error:
            if self._connection.broken:
                raise
            raise MigrationError(
                f"migration {step.migration.version} ({step.migration.name}) failed: {error}",
                hint="It was rolled back as a whole. The migrations before it were applied.",
            ) from error
        if record is not None:
            self._run(record)

    def _pending(self, ledger: _Ledger) -> Iterator[Step]:
        self._check_past(ledger)
        done = {migration.version for migration in ledger.migrations}
        missing = [step for step in self._plan.migrations if step.migration.version not in done]
        yield from missing
        # The version counts too: a migration may have dropped objects that the same text creates.
        newer = (ledger.version or 0) > self._plan.target
        if missing or (ledger.code != self._plan.code.migration and not newer):
            yield self._plan.code
        for name in sorted({*self._wanted, *ledger.contracts}):
            step = self._plan.contract(name)
            if not newer and ledger.contracts.get(name) != step.migration:
                yield step

    def _check_release(self, ledger: _Ledger) -> None:
        """No migration supports the schemas of development, before the first release."""
        first = next(iter(self._plan.migrations), None)
        applied = next(iter(ledger.migrations), None)
        if first and applied and first.migration.name != applied.name:
            raise MigrationError(
                f"this database has a schema from before the first release: its migration 1 is "
                f"{applied.name!r}, not {first.migration.name!r}",
                hint="Nothing was changed. Save what you need, then run: drop schema penstock, "
                "mdb_queue cascade (and pgmq, if it is installed); then penstock migrate up.",
            )

    def _check_past(self, ledger: _Ledger) -> None:
        self._check_release(ledger)
        known = {step.migration.version: step.migration for step in self._plan.migrations}
        for applied in ledger.migrations:
            ours = known.get(applied.version)
            if ours is not None and ours.checksum != applied.checksum:
                raise MigrationError(
                    f"migration {applied.version} ({applied.name}) was applied to this database "
                    f"with another text",
                    hint="Never edit an applied migration. Install the version of Penstock that "
                    "applied it, or restore its file and make the change in a new migration.",
                )

    def _read_ledger(self) -> _Ledger:
        if not self._has("migration"):
            self._check_encoding()
            return _Ledger([], None, {})
        rows = self._run("select version, name, checksum from penstock.migration order by version")
        code = self._run("select version, checksum from penstock.migration_code").fetchone()
        return _Ledger(
            [Migration(*row) for row in rows],
            Migration(code[0], CODE_NAME, code[1]) if code else None,
            self._read_contracts(),
        )

    def _read_contracts(self) -> dict[str, Migration]:
        if not self._has("migration_contract"):
            return {}
        # A contract whose schema was dropped is no longer wanted.
        rows = self._run(
            "select name, version, checksum from penstock.migration_contract "
            "where to_regnamespace(name) is not null"
        )
        return {
            name: Migration(version, f"contract {name}", checksum)
            for name, version, checksum in rows
        }

    def _has(self, table: str) -> bool:
        return self._value(f"select to_regclass('penstock.{table}') is not null")

    def _value(self, query: str) -> bool:
        row = self._run(query).fetchone()
        return bool(row and row[0])

    def _run(self, sql: str) -> psycopg.Cursor[tuple[Any, ...]]:
        # The caller's own row factory must not change these rows. As bytes and without parameters,
        # a whole file is sent at once, and its % signs have no meaning.
        return self._connection.cursor(row_factory=tuple_row).execute(sql.encode(), prepare=False)


# The line of a migration that supports clients of earlier versions: see sql/README.md.
_CLIENTS_FROM: Final = re.compile(r"^-- Clients from version (\d+) on work with it\.$", re.M)
_LOCK_SQL: Final = f"select pg_advisory_xact_lock({LOCK})"
# An unqualified name in a file is an error, instead of a name in the user's search path.
_SESSION_SQL: Final = (
    "set local client_min_messages = warning; set local search_path = pg_catalog, pg_temp;\n"
)


_ENCODING_HINT: Final = (
    f"Make another database for it: create database NAME encoding '{ENCODING}' template template0"
)
# The same as Migrator._check_encoding, for psql.
_ENCODING_SQL: Final = f"""do $encoding$
begin
  if getdatabaseencoding() <> '{ENCODING}' then
    raise exception 'database % has the encoding %, Penstock needs {ENCODING}',
        current_database(), getdatabaseencoding()
      using hint = 'Nothing was created. {_ENCODING_HINT.replace("'", "''")}';
  end if;
end $encoding$;"""


def _record(step: Step, plan: Plan) -> str:
    migration = step.migration
    if migration.name.startswith("contract "):
        return (
            "insert into penstock.migration_contract (name, checksum, version) values "
            f"('{migration.name.removeprefix('contract ')}', '{migration.checksum}', "
            f"{migration.version}) on conflict (name) do update set checksum = excluded.checksum, "
            "version = excluded.version, applied_at = excluded.applied_at"
        )
    if step is not plan.code:
        clients_from = _CLIENTS_FROM.search(step.sql)
        return (
            "insert into penstock.migration (version, name, checksum, clients_from) values "
            f"({migration.version}, '{migration.name}', '{migration.checksum}', "
            f"{clients_from[1] if clients_from else 'null'})"
        )
    return (
        "insert into penstock.migration_code (checksum, version) values "
        f"('{migration.checksum}', {migration.version}) "
        "on conflict (only_row) do update set checksum = excluded.checksum, "
        "version = excluded.version, applied_at = excluded.applied_at"
    )


def _checked(contracts: Iterable[str]) -> list[str]:
    wanted = list(contracts)
    for name in wanted:
        if name not in CONTRACTS:
            raise MigrationError(
                f"there is no contract {name!r}", hint=f"There are: {', '.join(CONTRACTS)}."
            )
    return wanted


def _script(plan: Plan, contracts: list[str]) -> str:
    parts = [
        "-- Schema penstock, whole. Run it with psql; `penstock migrate` takes over from there.",
        "\\set ON_ERROR_STOP on",
        "begin;",
        f"{_LOCK_SQL};",
        _ENCODING_SQL,
        plan.ledger,
        _SESSION_SQL,
    ]
    for step in [*plan.migrations, plan.code, *map(plan.contract, contracts)]:
        title = f"-- {step.migration.version} {step.migration.name}"
        parts += [title, step.sql, f"{_record(step, plan)};"]
    return "\n".join([*parts, "commit;", ""])
