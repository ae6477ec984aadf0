"""The OpenAPI 3.1 document, generated from the endpoints, and an HTML page with the same content.

The page loads nothing from other hosts.
"""

from __future__ import annotations

import inspect
import re
import types
from functools import cache
from importlib import metadata
from typing import Any, Final, get_args

import msgspec

from penstock.server.api.enqueue_schema import COMPONENTS
from penstock.server.openapi_schemas import finish, name_of, require_answered
from penstock.server.transport.problems import MEDIA_TYPE, Problem
from penstock.server.transport.routing import Call, Endpoint, Endpoints, Reply

endpoint: Final = Endpoints("operations")
_REFERENCES: Final = "#/components/schemas/{name}"
_HANDWRITTEN: Final = ("Enqueue", "NewMessage")
_REASONS: Final = {
    200: "Done",
    201: "Made",
    202: "Accepted",
    400: "Malformed",
    401: "No credentials, or unknown ones",
    403: "The key lacks the scope, for this queue or for all queues",
    404: "Not there",
    405: "The path does not support this method",
    408: "The body arrived too slowly",
    409: "Conflict: the lease is lost, the name or the key is taken",
    413: "Too large",
    415: "Not JSON, or an unknown encoding",
    422: "Out of range, or not storable",
    429: "The topic is full, or too many credentials failed; see Retry-After",
    503: "The database is unavailable, or the server is busy; see Retry-After",
    507: "The disk of the database is full",
}
_DESCRIPTION: Final = """A durable message queue inside PostgreSQL, over HTTP.

Every call needs an API key: by `Authorization: Bearer <key>`, or by Basic with the key's name and
the key. Errors are problem+json (RFC 9457)."""


@endpoint("GET", "/openapi.json", answers={200: dict[str, Any]})
async def openapi_document(call: Call) -> Reply:
    """This document. No key is needed."""
    return Reply(_encoded(call.context.settings.path_prefix))


@endpoint("GET", "/docs", answers={200: str}, media_type="text/html")
async def documentation(call: Call) -> Reply:
    """This document as a page. No key is needed."""
    return Reply(_page(), media_type="text/html; charset=utf-8")


@cache
def _encoded(prefix: str) -> bytes:
    return msgspec.json.encode({**document(), "servers": [{"url": prefix or "/"}]})


@cache
def _page() -> bytes:
    from penstock.server.ui.templates import render

    return render("openapi.html", document=document()).encode()


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of everything that `endpoints` lists."""
    from penstock.server.app import endpoints

    found = [each for each in endpoints() if not each.hidden]
    kinds = [kind for each in found for kind in _kinds(each)]
    schemas, components = msgspec.json.schema_components(
        [*kinds, Problem], ref_template=_REFERENCES
    )
    by_kind = {id(kind): schema for kind, schema in zip([*kinds, Problem], schemas, strict=True)}
    require_answered(components, [name_of(by_kind[id(kind)]) for kind in _answered(found)])
    paths: dict[str, Any] = {}
    for each in found:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_kind, components)
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": metadata.version("penstock"),
            "description": _DESCRIPTION,
        },
        "servers": [{"url": "/"}],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {**_without_bodies(components), **COMPONENTS},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }
    finished: dict[str, Any] = finish(made)
    return finished


def _kinds(each: Endpoint) -> list[Any]:
    """The types that need a schema. A union of structs is split, because msgspec has none."""
    found = [kind for answer in each.answers.values() for kind in _alternatives(answer)]
    if each.body is not None:
        found.append(each.body)
    if each.query is not None:
        found.append(each.query)
    return found


def _answered(found: list[Endpoint]) -> list[Any]:
    """The types of the responses."""
    return [kind for each in found for answer in each.answers.values()
            for kind in _alternatives(answer)]  # fmt: skip


def _without_bodies(components: dict[str, Any]) -> dict[str, Any]:
    """Without the types for which there are handwritten schemas."""
    return {name: part for name, part in components.items() if name not in _HANDWRITTEN}


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


_IDEMPOTENCY_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A call that is sent again with its key is done once. It gets the first answer,"
    " for a day, with the header `Idempotency-Replayed: true`. Use a new key for each call.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}


def _operation(
    each: Endpoint, schemas: dict[int, Any], components: dict[str, Any]
) -> dict[str, Any]:
    text = inspect.getdoc(each.handler) or ""
    summary, _, more = text.partition("\n")
    operation: dict[str, Any] = {
        "operationId": each.name,
        "tags": [each.tag],
        "summary": summary.strip().rstrip("."),
        "responses": _responses(each, schemas),
    }
    if more.strip():
        operation["description"] = " ".join(more.split())
    if each.need.is_open:
        operation["security"] = []
    elif each.need.scope is not None:
        operation["x-scope"] = each.need.scope
    parameters = [*_path_parameters(each), *_query_parameters(each, schemas, components)]
    if each.method == "POST":
        parameters.append(_IDEMPOTENCY_KEY)
    if parameters:
        operation["parameters"] = parameters
    if each.body is not None:
        schema = each.body_schema or schemas[id(each.body)]
        content = {"application/json": {"schema": schema}}
        needs_body = each.body_schema is not None or bool(
            _required(schemas[id(each.body)], components)
        )
        operation["requestBody"] = {"required": needs_body, "content": content}
    return operation


def _required(schema: dict[str, Any], components: dict[str, Any]) -> list[str]:
    found: list[str] = components[name_of(schema) or ""].get("required", [])
    return found


def _responses(each: Endpoint, schemas: dict[int, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, kind in each.answers.items():
        options = [schemas[id(option)] for option in _alternatives(kind)]
        schema = options[0] if len(options) == 1 else {"oneOf": options}
        media_type = each.media_type
        found[str(status)] = {
            "description": _REASONS[status],
            "content": {media_type: {"schema": schema}},
        }
    for status in sorted({*each.problems, *_usual_problems(each)}):
        found[str(status)] = {
            "description": _REASONS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        if status in (429, 503):
            found[str(status)]["headers"] = {
                "Retry-After": {"description": "seconds", "schema": {"type": "string"}}
            }
    return found


def _usual_problems(each: Endpoint) -> set[int]:
    usual = {400}
    if not each.need.is_open:
        usual |= {401, 403, 429, 503}
    if each.body is not None:
        usual |= {408, 413, 415, 422, 503, 507}
    if each.query is not None or "{" in each.path or each.method == "POST":
        usual |= {422}
    return usual


def _path_parameters(each: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(each.path, name)}
        for name in re.findall(r"{(\w+)}", each.path)
    ]


def _path_schema(path: str, name: str) -> dict[str, Any]:
    return _UUID if path.startswith("/api/bulk-acts/") else PATH_SCHEMAS[name]


_UUID: Final[dict[str, Any]] = {"type": "string", "format": "uuid"}

PATH_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "key": {"type": "string", "pattern": "^[A-Za-z0-9._@-]{1,64}$"},
    "id": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    "service": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$"},
    "queue": {"type": "string", "pattern": "^[a-z0-9._-]{1,128}$"},
    "topic": {"type": "string", "pattern": "^[a-z0-9._-]{1,128}$"},
    "schedule": {"type": "string", "pattern": "^[a-z0-9._-]{1,128}$"},
    "subscription": {"type": "string", "pattern": "^[a-z0-9._-]{1,128}$"},
    "task": _UUID,
}


def _query_parameters(
    each: Endpoint, schemas: dict[int, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if each.query is None:
        return []
    schema = components[name_of(schemas[id(each.query)]) or ""]
    required = schema.get("required", [])
    return [
        {"name": field, "in": "query", "required": field in required, "schema": _plain(part)}
        for field, part in schema["properties"].items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A query has no null, so optional parameters are not nullable."""
    options = [part for part in schema.get("anyOf", []) if part.get("type") != "null"]
    return options[0] if len(options) == 1 else {k: v for k, v in schema.items() if k != "default"}
