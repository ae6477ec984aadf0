"""The client for TypeScript knows the API of this server."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.typescript_limits import LIMITS

from penstock.server.openapi import document

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients" / "typescript"


def test_the_client_knows_every_operation_of_the_server() -> None:
    """`npm run generate` writes the table, and its types."""
    table = (PACKAGE / "src" / "operations.ts").read_text(encoding="utf-8")
    known = re.findall(r'  (\w+): \["([A-Z]+)", "([^"]+)"\],', table)
    wanted = {
        (operation["operationId"], method.upper(), path)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    assert set(known) == wanted


def test_every_test_that_does_not_apply_to_the_client_exists() -> None:
    files = (ROOT / "tests" / "contract").glob("test_*.py")
    tests = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    named = {pattern.split()[0] for patterns in LIMITS.values() for pattern in patterns}
    assert named - tests == set()
