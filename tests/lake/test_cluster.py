"""The same source and sink on a standalone master with two workers, and over Spark Connect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.conftest import Connect
from tests.lake.cluster import Cluster, connect_server, running_cluster

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
JOB = Path(__file__).with_name("cluster_job.py")
COUNT = 2000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def db(connect: Connect) -> Any:
    connection = connect()
    connection.execute("select penstock.create_queue('orders'), penstock.create_queue('mail')")
    connection.execute(
        "select penstock.enqueue_many('orders', array(select jsonb_build_object('n', n)"
        f" from generate_series(1, {COUNT}) n))"
    )
    return connection


def run(cluster: Cluster, command: list[str], **extra: str) -> None:
    environment = {**cluster.environment, **extra}
    done = subprocess.run(
        command, env=environment, cwd=cluster.home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


def check(db: Any, directory: Path) -> None:
    """Every order claimed, acked, landed from history, and enqueued as a mail: once each."""
    claimed = pq.read_table(directory / "orders", columns=["id", "payload"])
    landed = pq.read_table(directory / "history", columns=["id"])
    assert len(set(claimed["id"].to_pylist())) == claimed.num_rows == COUNT
    assert sorted(landed["id"].to_pylist()) == sorted(claimed["id"].to_pylist())
    mails = db.execute(
        "select count(*), count(distinct payload ->> 'n') from penstock.messages"
        " where queue = 'mail' and state = 'ready'"
    ).fetchone()
    assert mails == (COUNT, COUNT)
    assert db.execute("select count(*) from penstock.messages").fetchone() == (COUNT,)


@pytest.mark.slow
def test_a_job_over_spark_connect_runs_on_both_workers(
    cluster: Cluster, db: Any, dsn: str, tmp_path: Path
) -> None:
    with connect_server(cluster) as remote:
        run(cluster, [sys.executable, str(JOB), dsn, str(tmp_path)], SPARK_REMOTE=remote)
    check(db, tmp_path)
    assert len(cluster.executors()) == 2
    assert all(count >= 1 for count in cluster.executors().values())


# The Connect server above is itself submitted to the cluster: this is the same way once more.
@pytest.mark.slow
def test_the_same_job_is_submitted_to_a_cluster(
    cluster: Cluster, db: Any, dsn: str, tmp_path: Path
) -> None:
    run(cluster, cluster.submit(str(JOB), dsn, str(tmp_path)))
    check(db, tmp_path)


GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "spark-clusters.md"


@pytest.mark.slow
def test_the_commands_of_the_guide_run_as_they_are(
    connect: Connect, dsn: str, tmp_path: Path
) -> None:
    """A standalone cluster, spark-submit and a Spark Connect server, on the ports of the guide."""
    db = connect()
    db.execute("select penstock.create_queue('orders'), penstock.enqueue('orders', '1')")
    db.execute("select penstock.ack(c.id, c.token) from penstock.claim('orders', 1) c")
    text = GUIDE.read_text("utf-8")
    job = re.search(r"```python\n(from penstock.cli.*?)```", text, re.DOTALL)
    assert job is not None
    (tmp_path / "penstock_job.py").write_text(job[1])
    client = re.search(r"```python\n(from pyspark.sql import SparkSession.*?)```", text, re.DOTALL)
    assert client is not None
    assert '"sc://spark.example.com"' in client[1]
    local = client[1].replace("sc://spark.example.com", "sc://127.0.0.1:15002")
    (tmp_path / "connect_client.py").write_text(local)
    commands = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    assert len(commands) == 3
    program = "python connect_client.py"
    script = "\n".join(["set -e", "trap 'kill $(jobs -p)' EXIT", *commands, program])
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PENSTOCK_DSN": dsn,
        "PENSTOCK_LAKE": str(tmp_path / "lake"),
        "SPARK_LOCAL_DIRS": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "1 rows landed" in done.stdout
    assert re.search(r"MESSAGES\s+1\s", done.stdout), done.stdout
    assert re.search(r"\|\s*orders\|\s*1\|", done.stdout), done.stdout
