"""Which versions of PGMQ's Python clients read the records of PGMQ 1.13, as docs/reference/pgmq.md
says: each is installed from the package index into a separate directory, and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .sessions import Connection
from .test_pgmq_clients import address, shim, with_extension

Session = Callable[..., Connection]
DOCUMENTED = Path(__file__).parents[2] / "docs" / "reference" / "pgmq.md"

# Whether the record of a message is read as 1.13 writes it. The other ones take it apart by
# position, and 1.10 put last_read_at before vt.
FITS = {
    "pgmq==1.0.0": False,
    "pgmq==1.0.4": True,
    "pgmq==1.0.6": True,
    "pgmq==1.1.1": True,
    "pgmq==1.1.4": True,
    "tembo-pgmq-python==0.9.2": False,
    "tembo-pgmq-python==0.10.0": False,
}

# What is read, in which field: run with the directory of the version first on its path.
SCRIPT = """
import json, sys
from datetime import datetime
if sys.argv[1].startswith("pgmq"):
    from pgmq import PGMQueue
else:
    from tembo_pgmq_python import PGMQueue
client = PGMQueue(**json.loads(sys.argv[2]))
client.create_queue("work")
found = {}
for name, read in {
    "read": lambda: client.read("work", vt=60),
    "read_batch": lambda: client.read_batch("work", vt=60, batch_size=1),
    "read_with_poll": lambda: client.read_with_poll("work", vt=60, qty=1, max_poll_seconds=2),
    "pop": lambda: client.pop("work"),
    "set_vt": lambda: client.set_vt("work", sent, 60),
}.items():
    sent = client.send("work", {"name": name})
    one = read()
    one = one[0] if isinstance(one, list) else one
    right = one.msg_id == sent and one.message == {"name": name} and isinstance(one.vt, datetime)
    found[name] = bool(right)
    if name != "pop":
        assert client.delete("work", sent)
print(json.dumps(found))
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Installs a version next to the environment, which has its dependencies."""

    def install(requirement: str) -> Path:
        place = tmp_path_factory.mktemp("client")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        command = [*pip, "install", "--no-deps", "--target", str(place), requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(
                f"cannot install {requirement}: {done.stderr.strip().splitlines()[-1]} "
                "Choose a package index: pip config set global.index-url URL"
            )
        return place

    return install


@pytest.fixture
def place() -> Iterator[Path]:
    """The server can read it, unlike what is below the directory of pytest."""
    with tempfile.TemporaryDirectory(prefix="pgmq-", dir="/tmp") as made:
        yield Path(made)


@pytest.mark.parametrize("requirement", FITS)
def test_a_version_reads_records_as_documented(
    requirement: str,
    pgmq_dsn: str,
    session: Session,
    installed: Callable[[str], Path],
    place: Path,
) -> None:
    options: dict[str, Any] = address(pgmq_dsn)
    if FITS[requirement]:
        options["init_extension"] = False
    else:
        with_extension(session, pgmq_dsn, shim("penstock", place))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, requirement, json.dumps(options)],
        env={**os.environ, "PYTHONPATH": str(installed(requirement))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found.values()) == {FITS[requirement]}, found


def test_the_page_names_every_version_that_is_tested() -> None:
    text = DOCUMENTED.read_text("utf-8")
    for requirement, fits in FITS.items():
        name, version = requirement.split("==")
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` {version}"))
        assert row.endswith("| yes |" if fits else "| no |"), row
