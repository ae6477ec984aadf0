"""Models of payloads, without a JVM: their columns, and what does not fit them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pydantic
import pytest
from pyspark.sql.types import DecimalType, StringType, StructField, StructType

from penstock.errors import (
    ConfigurationError,
    InvalidValueError,
    LakeMismatchError,
    PenstockError,
)
from penstock.lake.models.model import Model
from penstock.lake.models.payload_check import PayloadCheck
from penstock.lake.models.rules import Rule, in_range, not_null
from penstock.lake.project.loading import load_project
from penstock.lake.project.own_gold import OwnGold


class Line(pydantic.BaseModel):
    product: str
    price: Decimal


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    id: int
    ordered_at: datetime
    due: date | None = None
    amount: float = pydantic.Field(ge=0)
    tags: dict[str, str] = {}
    lines: list[Line] = []
    other: int | str | None = None


@dataclass
class Small:
    id: int


def check(model: Model, *payloads: Any) -> tuple[list[Any], list[str | None]]:
    texts = [p if p is None or isinstance(p, bytes) else json.dumps(p) for p in payloads]
    texts = [t.decode() if isinstance(t, bytes) else t for t in texts]
    batch = pa.record_batch([pa.array(texts, pa.string())], ["payload"])
    (found,) = PayloadCheck(dict(model.schema), model.fields, ["payload"])(iter([batch]))
    return found.column("fields").to_pylist(), found.column("reason").to_pylist()


def one(model: Model, payload: Any) -> tuple[Any, str | None]:
    values, reasons = check(model, payload)
    return values[0], reasons[0]


def struct(name: str, kind: Any, nullable: bool = True) -> StructType:
    return StructType([StructField(name, kind, nullable)])


ORDER = {
    "id": 7,
    "ordered_at": "2026-01-31T12:00:00+02:00",
    "due": "2026-02-01",
    "amount": 12,
    "tags": {"a": "b"},
    "lines": [{"product": "pen", "price": "1.5"}],
    "other": {"x": 1},
}


def test_a_pydantic_model_becomes_typed_columns() -> None:
    model = Model.declare("orders", Order)
    types = {field.column: field.type.simpleString() for field in model.fields}
    assert types == {
        "id": "bigint",
        "ordered_at": "timestamp",
        "due": "date",
        "amount": "double",
        "tags": "map<string,string>",
        "lines": "array<struct<product:string,price:decimal(38,18)>>",
        "other": "string",
    }
    row, reason = one(model, {**ORDER, "other": 5})
    assert reason is None
    assert row["ordered_at"] == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert row["due"] == date(2026, 2, 1)
    assert row["lines"] == [{"product": "pen", "price": Decimal("1.5")}]
    assert (row["tags"], row["other"]) == ([("a", "b")], "5")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": "7"}, '$.id: "7" is not of type "integer"'),
        ({"amount": -1}, "$.amount: -1 is less than the minimum of 0"),
        ({"lines": [{"product": 1, "price": 1}]}, "$.lines[0].product: "),
        ({"ordered_at": "yesterday"}, "$.ordered_at: "),
        ({"ordered_at": None}, "$.ordered_at: "),
        ({"id": 2**63}, "$.id: 9223372036854775808 does not fit bigint"),
        ({"extra": 1}, "$: Additional properties are not allowed"),
    ],
)
def test_a_payload_that_does_not_fit_says_where_and_why(change: Any, reason: str) -> None:
    row, found = one(Model.declare("orders", Order), {**ORDER, "other": "x", **change})
    assert found is not None
    assert found.startswith(reason)
    assert set(row.values()) == {None}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (None, "the payload is bytes, not JSON"),
        ([1], "$: [1] is not of type"),
        (b"[" * 100_000, "the payload "),
        ({"id": 1.5}, "$.id: 1.5 is not of type"),
        (b'{"id": 1e400}', "$.id: "),
    ],
)
def test_hostile_payloads_do_not_fit_and_do_no_harm(payload: Any, reason: str) -> None:
    found = one(Model.declare("orders", Small), payload)[1]
    assert found is not None
    assert found.startswith(reason)


def test_a_decimal_keeps_every_digit_or_does_not_fit() -> None:
    model = Model.declare("orders", struct("amount", DecimalType(20, 2)))
    values, reasons = check(
        model,
        b'{"amount": 123456789012345678.99}',
        {"amount": "1.50"},
        {"amount": 0},
        {"amount": None},
        b'{"amount": 1.005}',
        b'{"amount": 1e30}',
        {"amount": "x"},
    )
    assert [row["amount"] for row in values[:4]] == [
        Decimal("123456789012345678.99"),
        Decimal("1.50"),
        Decimal(0),
        None,
    ]
    assert reasons[:4] == [None] * 4
    assert reasons[4] == "$.amount: 1.005 does not fit decimal(20,2)"
    assert all(reasons[4:])


def test_names_that_penstock_uses_get_a_prefix() -> None:
    schema = {"type": "object", "properties": {n: {} for n in ("day", "message_id", "a-b", "_x")}}
    model = Model.declare("orders", schema)
    assert [field.column for field in model.fields] == [
        "payload_day",
        "payload_message_id",
        "a_b",
        "payload_x",
    ]
    with pytest.raises(InvalidValueError, match="need the same column"):
        Model.declare("orders", {"type": "object", "properties": {"a": {}, "A": {}}})


def test_a_model_is_stored_as_json() -> None:
    model = Model.declare("orders", Order, [in_range("amount", 0), not_null("id", "stop")])
    assert Model.from_json(json.loads(json.dumps(model.as_json()))) == model


def test_a_declared_gold_table_is_the_same_after_it_was_stored() -> None:
    reads = ("silver/orders",)
    own = OwnGold(
        "revenue", reads, "day", {"amount": "sum"}, None, struct("a", StringType()).json(), "x"
    )
    stored = json.loads(json.dumps(own.as_json()))
    assert (OwnGold.from_json(stored), own.as_json()) == (own, stored)


def test_a_new_field_must_be_optional_and_an_old_one_stays() -> None:
    old = Model.declare("orders", struct("a", StringType(), nullable=False))
    with pytest.raises(LakeMismatchError, match="new field 'b', which is required"):
        Model.declare("orders", struct("b", StringType(), nullable=False)).after(old)
    new = Model.declare("orders", struct("b", StringType())).after(old)
    assert [(field.column, field.required) for field in new.fields] == [("a", False), ("b", False)]
    assert one(new, {"b": "x"}) == ({"a": None, "b": "x"}, None)


def test_models_and_rules_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    elsewhere = {"properties": {"a": {"not": {"$ref": "http://127.0.0.1:1/x.json"}}}}
    for bad in ({"type": "array"}, {"type": "nothing"}, {"$ref": "#/$defs/x"}, elsewhere):
        with pytest.raises(InvalidValueError):
            Model.declare("orders", bad)
    with pytest.raises(InvalidValueError, match="not a class that has a JSON Schema"):
        Model.declare("orders", object)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Model.declare("orders", tmp_path / "none.json")
    with pytest.raises(InvalidValueError, match="cannot be called 'messages'"):
        Model.declare("messages", Order)
    with pytest.raises(InvalidValueError, match="two rules called"):
        Model.declare("orders", Order, [not_null("id"), not_null("id")])
    with pytest.raises(InvalidValueError, match="has the action 'drop'"):
        not_null("id", "drop")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="not a name for a rule"):
        Rule("Not A Name", "count", "not_null", "id")


def broken_project(tmp_path: Path, text: str, name: str = "lake_project.py") -> str:
    file = tmp_path / name
    file.write_text(text)
    return str(file)


TWICE = """
from penstock.lake.project import Project

project = Project()
for _ in range(2):
    project.{}
"""
MISTAKES: dict[str, Callable[[Path], object]] = {
    "no bounds": lambda place: in_range("amount"),
    "not a schema": lambda place: Model.declare("orders", {"type": "nothing"}),
    "no file of a schema": lambda place: Model.declare("orders", place / "none.json"),
    "not Python": lambda place: load_project(broken_project(place, "", "project.txt")),
    "an exception": lambda place: load_project(broken_project(place, "1 / 0")),
    "two models": lambda place: load_project(
        broken_project(place, TWICE.format("model('orders', 'id BIGINT')"))
    ),
    "two functions": lambda place: load_project(
        broken_project(place, TWICE.format("gold('large', reads='silver_orders')(print)"))
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_an_error_of_a_declaration_says_what_to_do(
    mistake: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(PenstockError) as caught:
        mistake(tmp_path)
    assert caught.value.hint
