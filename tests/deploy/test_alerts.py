"""The alerts for Prometheus: they fire when they should, and each leads to a runbook."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.server.ui import diagnosis
from penstock.server.ui.runbooks import RUNBOOKS

PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"
# Each place that makes a finding names its kind.
FINDING_KINDS = set(re.findall(r'kind="([a-z-]+)"', inspect.getsource(diagnosis)))
# A server that is down, or has no database, has no findings to show.
WITHOUT_FINDING = {"server-down", "database"}
MONITOR = Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md"


def rules() -> list[dict[str, Any]]:
    text = (PROMETHEUS / "penstock-rules.yml").read_text("utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def runbook(rule: dict[str, Any]) -> str:
    address: str = rule["annotations"]["runbook_url"]
    base, _, kind = address.partition("#")
    assert base == "https://penstock.example.com/runbooks"
    return kind


def test_each_alert_has_a_severity_and_a_runbook() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert runbook(rule) in RUNBOOKS, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}


def test_each_finding_has_a_runbook_and_an_alert_and_the_other_way_round() -> None:
    alerts = {runbook(rule) for rule in rules()}
    assert alerts == FINDING_KINDS | WITHOUT_FINDING
    assert set(RUNBOOKS) == alerts


def test_the_chart_and_the_manifests_have_the_same_alerts() -> None:
    deploy = PROMETHEUS.parent
    text = (PROMETHEUS / "penstock-rules.yml").read_text("utf-8")
    assert (deploy / "helm" / "penstock" / "penstock-rules.yml").read_text("utf-8") == text
    manifests = (deploy / "kubernetes" / "prometheus-operator.yaml").read_text("utf-8")
    specs = [each["spec"] for each in yaml.safe_load_all(manifests)]
    assert [spec["groups"] for spec in specs if "groups" in spec] == [
        yaml.safe_load(text)["groups"]
    ]


def test_the_guide_lists_each_alert_with_its_severity() -> None:
    text = MONITOR.read_text("utf-8")
    for rule in rules():
        assert f"| {rule['alert']} | {rule['labels']['severity']} | " in text
    assert text.count("\n| Penstock") == len(rules())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs apt-get install prometheus")
@pytest.mark.parametrize(
    "command",
    [["check", "rules", "penstock-rules.yml"], ["test", "rules", "penstock-rules-test.yml"]],
)
def test_promtool_accepts_the_alerts(command: list[str]) -> None:
    done = subprocess.run(
        ["promtool", *command], cwd=PROMETHEUS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
