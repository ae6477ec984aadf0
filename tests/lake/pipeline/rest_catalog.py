"""An Iceberg REST catalog on loopback, for tests: the routes that a lake uses, over SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

Answer = tuple[int, dict[str, Any]]


@contextmanager
def rest_catalog(place: Path) -> Iterator[str]:
    """Its address."""
    catalog = SqlCatalog("rest", uri=f"sqlite:///{place}/catalog.db", warehouse=str(place))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(self._get())

        def do_HEAD(self) -> None:
            self._answer(self._get())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(_post(catalog, self._parts(), body))

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _get(self) -> Answer:
            return _get(catalog, self._parts())

        def _parts(self) -> list[str]:
            return self.path.partition("?")[0].removeprefix("/v1/").split("/")

        def _answer(self, answer: Answer) -> None:
            status, document = answer
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            catalog.engine.dispose()


def _get(catalog: SqlCatalog, parts: list[str]) -> Answer:
    match parts:
        case ["config"]:
            return 200, {"defaults": {}, "overrides": {}}
        case ["namespaces", name]:
            found = catalog.namespace_exists(name)
            return (200, {"namespace": [name]}) if found else _error(404, "NoSuchNamespace")
        case ["namespaces", name, "tables", table]:
            try:
                return 200, _described(catalog.load_table((name, table)))
            except NoSuchTableError:
                return _error(404, "NoSuchTableException")
    return _error(404, "NotFound")


def _post(catalog: SqlCatalog, parts: list[str], body: bytes) -> Answer:
    match parts:
        case ["namespaces"]:
            name = json.loads(body)["namespace"]
            catalog.create_namespace(tuple(name))
            return 200, {"namespace": name, "properties": {}}
        case ["namespaces", _, "tables"]:
            asked = CreateTableRequest.model_validate_json(body)
            metadata = new_table_metadata(
                asked.table_schema,
                asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                asked.write_order or UNSORTED_SORT_ORDER,
                asked.location or "",
                asked.properties,
            )
            return 200, {"metadata": json.loads(metadata.model_dump_json()), "config": {}}
        case ["namespaces", name, "tables", table]:
            change = CommitTableRequest.model_validate_json(body)
            named: Any = SimpleNamespace(name=lambda: (name, table))
            try:
                done = catalog.commit_table(named, change.requirements, change.updates)
            except CommitFailedException as error:
                return _error(409, "CommitFailedException", str(error))
            return 200, json.loads(done.model_dump_json())
    return _error(404, "NotFound")


def _described(table: Any) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _error(status: int, kind: str, message: str = "") -> Answer:
    return status, {"error": {"message": message or kind, "type": kind, "code": status}}
