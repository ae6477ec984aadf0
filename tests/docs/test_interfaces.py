"""SQL, Python, the command line and HTTP can do the same, or the reference says why not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click

from penstock import AsyncClient
from penstock.cli.program import penstock
from penstock.server.openapi import document

ROOT = Path(__file__).parents[2]
SQL, PYTHON, COMMANDS, HTTP, REASON = range(1, 6)
# Functions in these folders are for the server, workers, Spark and the lake.
SQL_ELSEWHERE = ("background", "common", "lake", "monitoring", "server", "spark", "storage")
# Workers, the server and the UI call these.
SQL_INTERNAL = {
    "clock_step",
    "continue_cancels",
    "drop_expired_results",
    "finish_batches",
    "get_batch_members",
    "get_result_queue",
    "note_deliveries",
    "overdue",
    "rescans_that_found",
}
CLI_ELSEWHERE = ("up", "demo", "migrate", "lake", "import", "doctor", "completion")
HTTP_ELSEWHERE = re.compile("/healthz|/metrics|/openapi.json|/docs")
PYTHON_ELSEWHERE = {"open", "close", "run"}


def rows() -> list[list[str]]:
    page = (ROOT / "docs" / "reference" / "interfaces.md").read_text(encoding="utf-8")
    cells = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in cells if row[0].strip() != "what"]


def named(column: int) -> list[str]:
    return [name for row in rows() for name in re.findall("`([^`]+)`", row[column])]


def sql_verbs(*folders: str) -> set[str]:
    """The public functions in folders of sql/functions; without folders, in all of them."""
    signatures = (ROOT / "tests" / "signatures.txt").read_text(encoding="utf-8")
    public = set(re.findall(r"^penstock\.(\w+)\(", signatures, re.MULTILINE))
    top = ROOT / "src" / "penstock" / "sql" / "functions"
    texts = [
        file.read_text(encoding="utf-8")
        for file in top.glob("*/*.sql")
        if not folders or file.parent.name in folders
    ]
    # A variant of a file replaces the name: `penstock.pause( => penstock.resume(`.
    return public & set(re.findall(r"(?:function |=> )penstock\.(\w+)\(", "\n".join(texts)))


def commands(command: click.Command, path: str = "") -> set[str]:
    if not isinstance(command, click.Group):
        return {path}
    children = command.commands.items()
    return {each for name, child in children for each in commands(child, f"{path} {name}".strip())}


def operations() -> set[str]:
    return {
        operation["operationId"]
        for path, methods in document()["paths"].items()
        for operation in methods.values()
        if not HTTP_ELSEWHERE.match(path)
    }


def test_every_sql_verb_is_in_the_table() -> None:
    table = named(SQL)
    assert sorted(table) == sorted(set(table))
    assert set(table) <= sql_verbs()
    assert sql_verbs() - sql_verbs(*SQL_ELSEWHERE) - SQL_INTERNAL - set(table) == set()


def test_every_method_of_the_client_is_in_the_table() -> None:
    methods = {
        name
        for name, _ in inspect.getmembers(AsyncClient, inspect.isfunction)
        if not name.startswith("_")
    }
    assert set(named(PYTHON)) == methods - PYTHON_ELSEWHERE


def test_every_command_is_in_the_table() -> None:
    wanted = {path for path in commands(penstock) if path.split()[0] not in CLI_ELSEWHERE}
    assert set(named(COMMANDS)) == {path for path in wanted if not path.startswith("bench")}


def test_every_operation_is_in_the_table() -> None:
    table = named(HTTP)
    assert sorted(table) == sorted(set(table))
    assert set(table) == operations()


def test_every_empty_cell_has_a_reason() -> None:
    """With `-s` it prints the table: what each interface calls a verb, or why it has none."""
    for row in rows():
        print(" | ".join(row))
    unexplained = [row[0] for row in rows() if "" in row[SQL : HTTP + 1] and not row[REASON]]
    assert unexplained == []
