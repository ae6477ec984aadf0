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
# Functions of SQL that are not verbs, with the reason why the table does not have them.
SQL_ELSEWHERE = {
    "workers report with them that they run": {"beat", "beat_v2", "retire"},
    "clients and `penstock doctor` check the schema with them": {
        *("check_grants", "oldest_client", "schema_version"),
    },
    "the lake is written by Python alone, and these are its bookkeeping": {
        *("analyze_history", "drop_landed", "erase_history", "history_dropped_through"),
        *("lake_freshness", "lake_glance", "lake_lag", "lake_landed", "lake_newest"),
        *("lake_published", "lake_verified", "publish_gold", "register_lake", "release_lake"),
        *("replay_landed", "restamp_history", "trim_gold"),
    },
    "the charts of the UI are recorded and read with them": {
        *("chart", "count_finished", "recent_depths", "recent_outcomes", "record_charts"),
    },
    "one server at a time sends notifications with them": {
        *("announcements", "lead_notifications", "release_notifications", "store_announcements"),
    },
    "the server stores the answers of repeated calls with them": {"keep_answer", "recall_answer"},
    "the server notes the uses of keys and ended sessions, and tidies, with them": {
        *("end_token", "note_key_use", "tidy_server"),
    },
    "people answer findings on the pages with them": {"clear_findings", "note_findings"},
    "streams return the credit of settled messages with it": {"held_leases"},
    "the data source of Spark consists of them": {
        *("spark_ack", "spark_attach", "spark_begin", "spark_claim", "spark_complete"),
        *("spark_enqueue", "spark_plan", "spark_publish", "spark_put", "spark_ready"),
        *("spark_release", "spark_seen", "spark_settle", "spark_stage", "spark_unsettled"),
        "spark_unstage",
    },
    "it corrects times after a step of the clock, which maintain and the doctor do": {"clock_step"},
    "workers and the server remove and finish with them what has ended": {
        *("continue_cancels", "drop_expired_results", "finish_batches"),
    },
    "the page of a batch lists its members with it": {"get_batch_members"},
    "HTTP and Django find with it who may read a result": {"get_result_queue"},
    "push delivery counts with it": {"note_deliveries"},
    "monitoring reads them": {"overdue", "rescans_that_found"},
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


def sql_functions() -> set[str]:
    """The public functions of sql/functions."""
    signatures = (ROOT / "tests" / "signatures.txt").read_text(encoding="utf-8")
    public = set(re.findall(r"^penstock\.(\w+)\(", signatures, re.MULTILINE))
    top = ROOT / "src" / "penstock" / "sql" / "functions"
    texts = [file.read_text(encoding="utf-8") for file in top.glob("*/*.sql")]
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


def test_every_sql_function_is_in_the_table_or_has_a_reason_why_not() -> None:
    table = named(SQL)
    assert sorted(table) == sorted(set(table))
    elsewhere = [name for names in SQL_ELSEWHERE.values() for name in names]
    assert len(elsewhere) == len(set(elsewhere))
    assert set(elsewhere) & set(table) == set()
    assert set(elsewhere) | set(table) == sql_functions()


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
