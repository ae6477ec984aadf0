"""What generators of clients read in the OpenAPI document."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.inspect import is_struct_type
from msgspec.structs import fields

from penstock.server.app import endpoints
from penstock.server.openapi import _encoded, document

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"


def schemas(value: Any, path: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each property of each object in a part of the document: its path, its name, its schema."""
    if isinstance(value, dict):
        if isinstance(value.get("properties"), dict):
            for name, schema in value["properties"].items():
                yield path, name, schema
        for key, child in value.items():
            yield from schemas(child, f"{path}/{key}")
    elif isinstance(value, list):
        for child in value:
            yield from schemas(child, path)


def variants(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema, or the alternatives that are not null."""
    found = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return [each for each in found if "$ref" not in each]


def test_every_time_has_the_format_date_time() -> None:
    names = {"visibility_timeout", "lease_until", "started_at", "next_fire", "since"}
    times = [
        (path, name, schema)
        for path, name, schema in schemas(document())
        if name.endswith(("_at", "_until")) or name in names
    ]
    assert len(times) > 40
    wrong = [
        f"{path}/{name}"
        for path, name, schema in times
        for each in variants(schema)
        if each.get("format") != "date-time"
    ]
    assert wrong == []


def test_every_id_of_a_message_or_a_lease_is_a_string() -> None:
    names = {"id", "ids", "lease_token", "message_id", "first_id"}
    ids = [found for found in schemas(document()) if found[1] in names]
    assert len(ids) > 20
    wrong = []
    for path, name, schema in ids:
        for each in variants(schema):
            items = each.get("items", each)
            if "$ref" not in items and items.get("type") != "string":
                wrong.append(f"{path}/{name}")
    assert wrong == []


def test_fields_of_requests_are_required_if_they_have_no_default() -> None:
    """The description has the default, because generators require a field whose schema has it."""
    found = document()
    compared = optional = 0
    for each in endpoints():
        if each.hidden or each.body_schema is not None or not is_struct_type(each.body):
            continue
        operation = found["paths"][each.path][each.method.lower()]
        [reference] = re.findall(r"#/components/schemas/(\w+)", str(operation["requestBody"]))
        schema = found["components"]["schemas"][reference]
        wanted = {field.encode_name for field in fields(each.body) if field.required}
        assert set(schema.get("required", ())) == wanted, reference
        assert not any("default" in part for part in schema["properties"].values()), reference
        compared += 1
        optional += len(fields(each.body)) - len(wanted)
    assert compared > 20
    assert optional > 30


def test_the_types_of_the_client_for_typescript_are_those_of_this_document() -> None:
    """`npm run generate` writes the digest of the document that it read."""
    table = (CLIENT / "src" / "operations.ts").read_text(encoding="utf-8")
    digest = hashlib.sha256(_encoded("")).hexdigest()
    assert f"// SHA-256 of the document: {digest}\n" in table, "see clients/typescript/README.md"
