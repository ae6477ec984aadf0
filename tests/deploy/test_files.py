"""The files of deploy/: each is accepted by its own program, and they agree with the product."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from tests.deploy.tools import DEPLOY, ROOT, program, run

from penstock.server.settings import ServerSettings
from penstock.worker.worker import GRACE_SECONDS

KUBERNETES = DEPLOY / "kubernetes"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def objects(file: str) -> dict[tuple[str, str], Any]:
    found = yaml.safe_load_all((KUBERNETES / file).read_text("utf-8"))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def containers() -> Iterator[tuple[Any, Any]]:
    for each in objects("penstock.yaml").values():
        pod = each["spec"].get("template", {}).get("spec")
        for container in (pod or {}).get("containers", ()):
            yield pod, container


@pytest.mark.parametrize("name", ["Dockerfile", "worker.Dockerfile"])
def test_hadolint_finds_nothing_in_the_images(name: str) -> None:
    run(program("hadolint", "make test-deploy"), DEPLOY / "docker" / name)


def test_the_image_copies_what_exists_and_installs_what_is_locked() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text("utf-8")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    allowed = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text("utf-8")
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
        assert f"!{name}\n" in allowed, name
    locked = (ROOT / "requirements" / "server.txt").read_text("utf-8")
    assert "psycopg-binary==" in locked
    assert "pgserver" not in locked, "the image has no PostgreSQL"


def test_the_compose_file_starts_each_service_after_what_it_needs() -> None:
    services = yaml.safe_load((DEPLOY / "docker" / "compose.yml").read_text("utf-8"))["services"]
    for name in ("server", "worker"):
        needed = services[name]["depends_on"]
        assert needed["migrate"]["condition"] == "service_completed_successfully"
        assert services[name]["stop_grace_period"] == "30s"
        assert services[name]["read_only"]
    assert services["server"]["ports"] == ["127.0.0.1:8080:8080"], "no TLS: loopback only"
    command = [sys.executable, "-c", "import work; print(list(work.app)[0].queue)"]
    app = DEPLOY / "docker" / "app"
    done = subprocess.run(command, cwd=app, capture_output=True, text=True, check=True)
    assert done.stdout == "emails\n"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    # The programs of the unit need not be installed here, so another one stands for them.
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text("utf-8"), flags=re.M)
    copy = tmp_path / unit.name.replace("@", "@emails")
    copy.write_text(text)
    assert run(program("systemd-analyze", "apt-get install systemd"), "verify", copy) == ""


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_gives_the_process_time_to_stop_and_few_rights(unit: Path) -> None:
    text = unit.read_text("utf-8")
    grace = max(ServerSettings().drain_seconds, GRACE_SECONDS)
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M)[1]) > grace  # type: ignore[index]
    systemd = program("systemd-analyze", "apt-get install systemd")
    run(systemd, "security", "--offline=true", "--threshold=25", unit)


def test_kubernetes_accepts_the_manifests() -> None:
    validate = program("kubernetes-validate", "make test-deploy")
    run(validate, "--strict", "--quiet", KUBERNETES / "penstock.yaml")


def test_the_manifests_are_rendered_from_the_chart() -> None:
    helm = program("helm", "make test-deploy")
    run(sys.executable, "tools/render_kubernetes.py", "--check", "--helm", helm)
    run(helm, "lint", "--strict", DEPLOY / "helm" / "penstock")


@pytest.mark.parametrize(
    "wrong",
    [
        "server.replicas=none",
        "servers.replicas=2",
        "ingress.path=ops",
        "workers[0].name=Not_A_Name",
        "workers[0].queues[0]='; drop table orders",
    ],
)
def test_the_chart_refuses_wrong_values(wrong: str) -> None:
    helm = program("helm", "make test-deploy")
    chart, example = DEPLOY / "helm" / "penstock", DEPLOY / "helm" / "example-values.yaml"
    command = [helm, "template", "x", chart, "--kube-version", "1.30", "--values", example]
    done = subprocess.run([*command, "--set", wrong], capture_output=True, text=True, check=False)
    assert done.returncode != 0, done.stdout


def test_the_chart_publishes_the_server_under_a_path() -> None:
    helm = program("helm", "make test-deploy")
    chart = DEPLOY / "helm" / "penstock"
    options = "ingress.enabled=true,ingress.host=example.com,ingress.path=/ops/penstock"
    text = run(helm, "template", "x", chart, "--kube-version", "1.30", "--set", options)
    found = {each["kind"]: each for each in yaml.safe_load_all(text) if each}
    [path] = found["Ingress"]["spec"]["rules"][0]["http"]["paths"]
    assert (path["path"], path["pathType"]) == ("/ops/penstock", "Prefix")
    server = next(
        each
        for each in yaml.safe_load_all(text)
        if each and each["kind"] == "Deployment" and each["metadata"]["name"].endswith("-server")
    )
    [container] = server["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["PENSTOCK_HTTP_PUBLIC_URL"] == "https://example.com/ops/penstock"


def test_pods_get_time_to_stop_and_few_rights() -> None:
    found = list(containers())
    assert len(found) == 3
    for pod, container in found:
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        grace = pod.get("terminationGracePeriodSeconds", 0)
        if container["name"] == "server":
            assert grace > ServerSettings().drain_seconds + 5, "5 seconds of preStop"
        elif container["name"] == "worker":
            assert grace > GRACE_SECONDS


def test_probes_ask_paths_that_the_server_has() -> None:
    from penstock.server.app import endpoints

    paths = {each.path for each in endpoints()}
    for _, container in containers():
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            if name in container:
                assert container[name]["httpGet"]["path"] in paths
    for kind in ("Deployment", "PodDisruptionBudget"):
        names = {name for each, name in objects("penstock.yaml") if each == kind}
        assert names == {"penstock-server", "penstock-worker-emails"}


def test_the_query_of_the_scaler_counts_what_is_ready_or_leased(dsn: str) -> None:
    [scaler] = [each for (kind, _), each in objects("keda.yaml").items() if kind == "ScaledObject"]
    query = scaler["spec"]["triggers"][0]["metadata"]["query"]
    with psycopg.connect(dsn) as connection:
        connection.execute("select penstock.create_queue('emails')")
        connection.execute("select penstock.enqueue('emails', '1') from generate_series(1, 3)")
        connection.execute("select penstock.enqueue('emails', '1', delay => interval '1 hour')")
        connection.execute("select penstock.claim('emails', 1)")
        connection.execute("set local role penstock_consumer")
        assert connection.execute(query).fetchone() == (3,)


def test_variables_of_the_files_are_variables_of_the_product() -> None:
    known = (ROOT / "src/penstock/server/settings.py").read_text("utf-8")
    known += (ROOT / "src/penstock/settings.py").read_text("utf-8")
    known += (ROOT / "src/penstock/secrets.py").read_text("utf-8")
    own = {"PENSTOCK_APP", "PENSTOCK_WORKER_OPTIONS", "PENSTOCK_IMAGE"}
    for file in DEPLOY.rglob("*"):
        if file.is_file() and file.parent.name != "__pycache__":
            for name in set(re.findall(r"\bPENSTOCK_[A-Z_]+", file.read_text("utf-8"))) - own:
                assert f"`{name}`" in known, f"{name} in {file.relative_to(ROOT)}"
