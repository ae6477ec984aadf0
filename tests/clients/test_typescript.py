"""The client for TypeScript knows the API of this server."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.server.openapi import document

PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"


def test_the_client_knows_every_operation_of_the_server() -> None:
    """`npm run generate` writes the table, and the types beside it."""
    table = (PACKAGE / "src" / "operations.ts").read_text(encoding="utf-8")
    known = re.findall(r'  (\w+): \["([A-Z]+)", "([^"]+)"\],', table)
    wanted = {
        (operation["operationId"], method.upper(), path)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    assert set(known) == wanted
