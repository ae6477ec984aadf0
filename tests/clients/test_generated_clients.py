"""Clients that generators make from the OpenAPI document, at their defaults: they compile in strict
mode and run against a real server. `make test-generated-clients` installs the generators."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.conftest import make_key, run, start_server, web

__all__ = ["make_key", "run", "start_server", "web"]
# The environment of openapi-python-client, and the directory with the jar of openapi-generator.
PYTHON = os.environ.get("PENSTOCK_TEST_GENERATED_CLIENTS", "")
JARS = os.environ.get("PENSTOCK_TEST_GENERATOR_JARS", "")
HERE = Path(__file__).parent / "generated"
SCENARIO = "enqueue, long poll, extend, settle, retry, dead letter and redrive"
pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="needs generators: run `make test-generated-clients`"),
    pytest.mark.timeout(600),
]


def call(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path, web: Any) -> Path:
    """A directory with the scenario, the installed generators, and the server's document."""
    for file in HERE.iterdir():
        if file.suffix in (".ts", ".py", ".json"):
            shutil.copy(file, tmp_path)
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")
    document = httpx.get(f"{web.url}/openapi.json").raise_for_status()
    (tmp_path / "openapi.json").write_bytes(document.content)
    return tmp_path


def binary(name: str) -> Path:
    return HERE / "node_modules" / ".bin" / name


TYPESCRIPT: dict[str, Callable[[], list[str | Path]]] = {
    "hey_api": lambda: [binary("openapi-ts"), "-i", "openapi.json", "-o", "hey_api_client"],
    "openapi_typescript": lambda: [
        *(binary("openapi-typescript"), "openapi.json"),
        *("-o", "openapi_typescript_client/index.ts"),
    ],
    "openapi_generator": lambda: [
        *("java", "-jar", next(Path(JARS).glob("openapi-generator-cli-*.jar")), "generate"),
        *("-g", "typescript-fetch", "-i", "openapi.json", "-o", "openapi_generator_client"),
    ],
}


@pytest.mark.parametrize("name", TYPESCRIPT)
def test_a_generated_client_for_typescript_compiles_in_strict_mode_and_runs(
    name: str, project: Path, web: Any, make_key: Callable[..., str]
) -> None:
    call(*TYPESCRIPT[name](), cwd=project)
    # The whole generated client is compiled, whether the scenario uses a part or not.
    generated = sorted(project.glob(f"{name}_client/**/*.ts"))
    assert generated
    (project / "everything.json").write_text(
        '{"extends": "./tsconfig.json", "compilerOptions": {"outDir": "out", "rootDir": "."},'
        f' "include": ["{name}.ts", "{name}_client/**/*.ts"]}}',
        encoding="utf-8",
    )
    call(binary("tsc"), "-p", "everything.json", cwd=project)
    (project / "out" / "package.json").write_text('{"type": "commonjs"}', encoding="utf-8")
    key = make_key("generated", "admin")
    printed = call("node", f"out/{name}.js", web.url, key, "scene", cwd=project)
    print(f"{name}: {len(generated)} files compiled, {SCENARIO} {printed}")
    assert printed == "passed\n"


def test_a_generated_client_for_python_is_typed_in_strict_mode_and_runs(
    project: Path, web: Any, make_key: Callable[..., str]
) -> None:
    bin = Path(PYTHON) / "bin"
    printed = call(
        *(bin / "openapi-python-client", "generate", "--path", "openapi.json"),
        *("--meta", "none", "--output-path", "penstock_client"),
        cwd=project,
    )
    assert "WARNING parsing" not in printed
    call(bin / "mypy", "--strict", "penstock_client", "openapi_python.py", cwd=project)
    key = make_key("generated", "admin")
    program = [bin / "python", "openapi_python.py", web.url, key, "scene"]
    printed = call(*program, cwd=project)
    print(f"openapi_python_client: {SCENARIO} {printed}")
    assert printed == "passed\n"
