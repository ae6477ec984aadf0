"""Arguments arrive with their values and types."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from penstock import App, AsyncClient
from penstock.errors import PayloadNotStorableError, TaskArgumentsError
from penstock.testing import drain_async


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


@dataclass
class Address:
    street: str
    lines: list[str] = field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: int


class Person(TypedDict):
    name: str


class Model(BaseModel):
    when: datetime
    amount: Decimal


class Struct(msgspec.Struct):
    number: int


class Money:
    """A type that only the application knows."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents


NOW = datetime(2026, 11, 18, 7, 30, 0, 123456, UTC)
VALUES: list[tuple[Any, Any]] = [
    (int, 2**63),
    (float, 1e23),
    (float, -1.5e-300),
    (str, 'ü \\u0000 "quoted" \n'),
    (bytes, b"\x00\xff"),
    (bool, True),
    (datetime, NOW),
    (date, NOW.date()),
    (time, time(12, 30)),
    (timedelta, timedelta(days=1, microseconds=1)),
    (UUID, UUID(int=7)),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (Size, Size.LARGE),
    (Literal["a", "b"], "a"),
    (Address, Address("High Street", ["1"])),
    (Point, Point(1, 2)),
    (Person, {"name": "ada"}),
    (Model, Model(when=NOW, amount=Decimal("0.30"))),
    (list[Model], [Model(when=NOW, amount=Decimal(1))]),
    (Struct, Struct(1)),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (tuple[int, str], (1, "a")),
    (dict[UUID, list[Decimal]], {UUID(int=1): [Decimal("0.1")]}),
    (Address | None, None),
    (Money, Money(5)),
    (Money | None, Money(5)),
    (Any, {"list": [1, 2.5, None, "x"]}),
]


async def test_arguments_arrive_as_they_were(client: AsyncClient, app: App) -> None:
    app.register_type(Money, encode=lambda money: money.cents, decode=Money)
    arrived: dict[str, Any] = {}

    def task_for(name: str, type_: Any) -> Any:
        def function(value: Any) -> None:
            arrived[name] = value

        function.__annotations__["value"] = type_
        return app.task(queue="work", name=name)(function)

    sent = {f"t{number}": pair for number, pair in enumerate(VALUES)}
    for name, (type_, value) in sent.items():
        await task_for(name, type_).enqueue(value)
    await drain_async(app, client)
    assert arrived == {name: value for name, (_, value) in sent.items()}
    assert {name: type(value) for name, value in arrived.items()} == {
        name: type(value) for name, (_, value) in sent.items()
    }


async def test_values_that_would_change_on_the_way_are_refused(
    client: AsyncClient, app: App
) -> None:
    @app.task(queue="work")
    def untyped(value, number: float = 0.0) -> None:  # type: ignore[no-untyped-def]
        ...

    for value in (NOW, (1, 2), {1}, UUID(int=1), {1: 2}, float("nan")):
        with pytest.raises(TaskArgumentsError, match="Annotate it"):
            untyped.message(value)
    with pytest.raises(TaskArgumentsError, match=r"got `null` - at `\$.number`"):
        untyped.message(1, float("nan"))
    with pytest.raises(PayloadNotStorableError, match="NUL"):
        untyped.message("\x00")
    with pytest.raises(TaskArgumentsError, match="surrogates"):
        untyped.message("\ud800")


async def test_a_wrong_value_of_a_model_names_the_field(client: AsyncClient, app: App) -> None:
    @app.task(queue="work")
    def task(model: Model) -> None: ...

    with pytest.raises(TaskArgumentsError, match="amount"):
        task.message({"when": NOW, "amount": "much"})  # type: ignore[arg-type]
