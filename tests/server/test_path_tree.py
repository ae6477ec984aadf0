"""Which endpoint a path belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.server.app import endpoints
from penstock.server.transport.path_tree import Paths


@dataclass(frozen=True)
class Place:
    method: str
    path: str

    @property
    def has_head(self) -> bool:
        return self.method == "GET"


PLACES = [
    Place("POST", "/api/messages"),
    Place("GET", "/api/messages"),
    Place("POST", "/api/messages/dequeue"),
    Place("GET", "/api/messages/{id}"),
    Place("POST", "/api/messages/{id}/ack"),
    Place("GET", "/services/{service}/queues/{queue}"),
]


@pytest.mark.parametrize(
    ("path", "methods", "values"),
    [
        ("/api/messages", {"POST", "GET", "HEAD"}, {}),
        ("/api/messages/dequeue", {"POST"}, {}),
        ("/api/messages/12", {"GET", "HEAD"}, {"id": "12"}),
        ("/api/messages/12/ack", {"POST"}, {"id": "12"}),
        ("/services/a/queues/b.c", {"GET", "HEAD"}, {"service": "a", "queue": "b.c"}),
    ],
)
def test_a_path_has_its_methods_and_its_values(
    path: str, methods: set[str], values: dict[str, str]
) -> None:
    found = Paths(PLACES).find(path)
    assert found is not None
    assert (set(found[0]), found[1]) == (methods, values)


@pytest.mark.parametrize(
    "path",
    ["", "/", "/api", "/api/", "/api/messages/", "/api/messages//ack", "/api/messages/1/ack/",
     "/api/messages/1/nack", "//api/messages", "/services/a/queues", "api/messages"],
)  # fmt: skip
def test_what_is_nowhere_is_not_found(path: str) -> None:
    assert Paths(PLACES).find(path) is None


def test_every_endpoint_is_found_at_its_path() -> None:
    all_of_them = endpoints()
    paths = Paths(all_of_them)
    for each in all_of_them:
        found = paths.find(each.path.replace("{", "").replace("}", ""))
        assert found is not None, each.path
        assert found[0][each.method] is each
