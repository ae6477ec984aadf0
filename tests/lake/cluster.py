"""A standalone Spark cluster of real processes on loopback: a master, workers, a Connect server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from penstock.spark.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_SECONDS = 150


@dataclass
class Cluster:
    home: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    master: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Everything stays on loopback, and Python is the one that runs the tests."""
        return {
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.home),
            "SPARK_DAEMON_MEMORY": "640m",
        }

    def start(self, name: str, command: Sequence[str], ready: str) -> str:
        """Starts a process, and waits for the line that says it is ready: its first group."""
        log = self.home / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.home,
                start_new_session=True,
            )
        self.processes.append(process)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if found := re.search(ready, log.read_text("utf-8", "replace")):
                return found[1]
            time.sleep(0.2)
        raise AssertionError(f"{name} did not start: {log.read_text('utf-8', 'replace')[-2000:]}")

    def start_daemon(self, name: str, kind: str, *arguments: str, ready: str) -> str:
        program = str(SPARK_HOME / "bin" / "spark-class")
        return self.start(name, [program, f"org.apache.spark.deploy.{kind}", *arguments], ready)

    def submit(self, *arguments: str) -> list[str]:
        """The command line of a job on this cluster."""
        memory = ["--driver-memory", "640m", "--executor-memory", "512m"]
        program = str(SPARK_HOME / "bin" / "spark-submit")
        return [program, "--master", self.master, *memory, *arguments]

    def executors(self) -> dict[str, int]:
        """How many executors each worker has run."""
        places = sorted(self.home.glob("worker-*.work"))
        return {place.name: len(list(place.glob("app-*/*/stderr"))) for place in places}

    def stop(self) -> None:
        while self.processes:
            _end(self.processes.pop())


@contextmanager
def running_cluster(home: Path, workers: int = 2) -> Iterator[Cluster]:
    cluster = Cluster(home)
    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    try:
        cluster.master = cluster.start_daemon(
            "master", "master.Master", *ports, ready=r"Starting Spark master at (spark://\S+)"
        )
        for number in range(workers):
            place = ["--work-dir", str(home / f"worker-{number}.work")]
            size = ["--cores", "1", "--memory", "768m"]
            cluster.start_daemon(
                f"worker-{number}",
                "worker.Worker",
                *(*ports, *place, *size, cluster.master),
                ready=r"Successfully registered with (master) ",
            )
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def connect_server(cluster: Cluster) -> Iterator[str]:
    """A Spark Connect server that runs its jobs on the cluster: its address."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    kind = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command = cluster.submit(*options, *kind, "spark-internal")
    port = cluster.start("connect", command, r"Spark Connect server started at: \S+:(\d+)")
    yield f"sc://127.0.0.1:{port}"
    _end(cluster.processes.pop())


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process that we started, with its children: they form a separate process group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
