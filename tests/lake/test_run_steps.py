"""What a run says about its steps: metrics, logs and lineage events over real HTTP."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
from typing import Any

import pytest
from tests.lake.lineage_server import LineageServer

from penstock.cli.lake import lake
from penstock.cli.logs import JsonLines
from penstock.errors import LakeError
from penstock.lake import lineage, metrics
from penstock.lake.run import RunTotals
from penstock.lake.run_steps import RunSteps, log_command, log_step


def some_steps(steps: RunSteps) -> None:
    with steps.step("land") as step:
        step.rows, step.files = 5, 1
        step.wrote("bronze/history", 5)
        step.inputs.add("postgresql:app.penstock.history")
    with steps.step("publish", is_lazy=True):
        pass  # it found nothing to do
    with pytest.raises(LakeError), steps.step("refresh"):
        raise LakeError("the disk is missing", hint="Buy another one.")


def test_every_step_is_counted_in_the_metrics() -> None:
    steps, totals = RunSteps(), RunTotals(quarantined_rows=2)
    totals.failed_rules = {"orders": {"model": 2}}
    some_steps(steps)
    text = metrics.text("shop", totals, None, steps.totals)
    for line in (
        'penstock_lake_steps_total{lake="shop",step="land",outcome="done"} 1',
        'penstock_lake_steps_total{lake="shop",step="refresh",outcome="failed"} 1',
        'penstock_lake_steps_total{lake="shop",step="compact",outcome="done"} 0',
        'penstock_lake_step_rows_total{lake="shop",step="land"} 5',
        'penstock_lake_quarantined_rows_total{lake="shop"} 2',
        'penstock_lake_failed_rule_rows_total{lake="shop",queue="orders",rule="model"} 2',
    ):
        assert f"{line}\n" in text
    assert 'penstock_lake_step_seconds_total{lake="shop",step="land"} 0' in text


@pytest.mark.parametrize(("passed", "value"), [(True, 1), (False, 0)])
def test_a_command_has_metrics_of_its_last_run(passed: bool, value: int) -> None:
    with RunSteps().step("verify") as step:
        step.rows, step.passed = 51, passed
    text = metrics.of_command("shop", step)
    assert f'penstock_lake_command_succeeded{{lake="shop",command="verify"}} {value}\n' in text
    assert 'penstock_lake_command_rows{lake="shop",command="verify"} 51\n' in text
    # A collector refuses the same series in two files.
    assert not set(re.findall(r"^\w+", text, re.M)) & set(
        re.findall(r"^\w+", metrics.text("shop", RunTotals(), None, RunSteps().totals), re.M)
    )


def test_a_command_is_logged_although_it_changed_nothing(caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "penstock.lake"):
        for passed in (True, False):
            with RunSteps([log_command]).step("verify") as step:
                step.passed = passed
    agrees, differs = (json.loads(JsonLines().format(record)) for record in caplog.records)
    assert (agrees["level"], agrees["step"]) == ("info", "verify")
    assert (differs["level"], differs["message"]) == ("warning", "verify found problems")


COMMANDS = ("run", "verify", "rebuild", "repair", "compact", "drop-landed", "forget", "replay")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_works_on_the_lake_can_report_itself(name: str) -> None:
    options = {option for each in lake.commands[name].params for option in each.opts}
    assert {"--metrics-file", "--log-format"} <= options


def test_steps_that_did_something_are_logged_as_json(caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "penstock.lake"):
        some_steps(RunSteps([log_step]))
    landed, failed = (json.loads(JsonLines().format(record)) for record in caplog.records)
    assert (landed["step"], landed["rows"], landed["tables"]) == ("land", 5, {"bronze/history": 5})
    assert landed["seconds"] >= 0
    assert (failed["level"], failed["step"]) == ("error", "refresh")
    assert failed["message"].startswith("refresh failed: the disk is missing")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    with LineageServer() as server:
        monkeypatch.setenv("OPENLINEAGE_URL", server.url)
        yield server


def test_steps_become_lineage_events(server: LineageServer) -> None:
    assert lineage.is_configured()
    client = lineage.lineage_client()
    some_steps(RunSteps([lineage.Lineage(client, "shop", "/lake", "postgres://db:5432")]))
    assert told(server) == [
        ("START", "lake.shop.land"),
        ("COMPLETE", "lake.shop.land"),
        ("START", "lake.shop.refresh"),
        ("FAIL", "lake.shop.refresh"),
    ]
    _, landed, _, failed = server.events
    (source,), (target,) = landed["inputs"], landed["outputs"]
    assert (source["namespace"], source["name"]) == (
        "postgres://db:5432",
        "app.penstock.history",
    )
    assert (target["namespace"], target["name"]) == ("file:///lake", "bronze/history")
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 5
    assert "the disk is missing" in failed["run"]["facets"]["errorMessage"]["message"]


def told(server: LineageServer) -> list[tuple[str, str]]:
    return [(event["eventType"], event["job"]["name"]) for event in server.events]


def test_a_step_that_is_killed_has_sent_its_start(server: LineageServer) -> None:
    program = """
import os, signal
from penstock.lake import lineage
from penstock.lake.run_steps import RunSteps

observer = lineage.Lineage(lineage.lineage_client(), "shop", "/lake", "postgres://db:5432")
with RunSteps([observer]).step("land", is_lazy=True) as step:
    step.begin()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert told(server) == [("START", "lake.shop.land")]


def test_a_lineage_server_that_fails_does_not_stop_the_lake(
    server: LineageServer, caplog: Any
) -> None:
    server.status = 400
    client = lineage.lineage_client()
    some_steps(RunSteps([lineage.Lineage(client, "shop", "/lake", "postgres://db:5432")]))
    assert "a lineage event was not sent" in caplog.text


def test_without_settings_there_is_no_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not lineage.is_configured()
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not lineage.is_configured()
