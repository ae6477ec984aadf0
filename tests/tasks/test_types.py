"""Arguments arrive with their values and types."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, Json, SecretStr, computed_field

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


class Rectangle(BaseModel):
    """Its JSON has other names than its fields, and one that no field has."""

    model_config = ConfigDict(extra="forbid", strict=True)
    width: int = Field(alias="w")
    drawn_at: datetime = Field(alias="at")
    raw: Json[list[int]] = [1]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.width**2


class Login(BaseModel):
    user: str
    password: SecretStr


class Renamed(BaseModel):
    name: str = Field(validation_alias="reads", serialization_alias="writes")


class Struct(msgspec.Struct):
    number: int


@dataclass
class Node:
    """Refers to itself, and holds anything."""

    value: Any
    children: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Opaque:
    """Two objects are never equal."""

    values: list[Any]


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
    (Rectangle, Rectangle(w=2, at=NOW, raw="[2, 3]")),
    (Any, {"number": 10**30}),
    (int, 10**30),
    (list, [1, {"a": None}]),
    (dict, {"a": [1.5]}),
    (dict[int, Any], {1: [2]}),
    (float | None, 1.5),
    (Node, Node(1, [Node("a"), Node([None])])),
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


def test_a_value_that_would_change_inside_a_container_is_refused() -> None:
    def task_for(type_: Any) -> Any:
        def function(value: Any) -> None: ...

        function.__annotations__["value"] = type_
        return App().task(queue="work")(function)

    wraps: list[tuple[Any, Callable[[Any], Any]]] = [
        (list, lambda value: [value]),
        (dict, lambda value: {"a": value}),
        (set, lambda value: {value}),
        (tuple, lambda value: (value,)),
        (list[Any], lambda value: [value]),
        (Any | None, lambda value: value),
        (dict[int, Any], lambda value: {1: value}),
        (dict[str, list[object]], lambda value: {"a": [value]}),
        (Node, lambda value: Node(1, [Node(value)])),
    ]
    for type_, wrap in wraps:
        task = task_for(type_)
        task.message(wrap("a"))
        for value in ((1, 2), NOW, UUID(int=1), Decimal(1)):
            with pytest.raises(TaskArgumentsError):
                task.message(wrap(value))


def test_a_number_that_json_lacks_is_refused_even_where_none_is_allowed() -> None:
    app = App()

    @app.task(queue="work")
    def task(number: float | None = None, many: list[float | None] | None = None) -> None: ...

    for number in (math.nan, math.inf):
        with pytest.raises(TaskArgumentsError, match="does not carry unchanged"):
            task.message(number)
        with pytest.raises(TaskArgumentsError, match="does not carry unchanged"):
            task.message(None, [1.5, number])
    task.message(None, [None, 1.5])


def test_objects_that_cannot_be_compared_are_sent_as_they_are() -> None:
    app = App()

    @app.task(queue="work")
    def task(value: Opaque) -> None: ...

    assert json.loads(str(task.message(Opaque([1])).payload)) == {"value": {"values": [1]}}


def test_a_model_that_does_not_read_back_equal_is_refused() -> None:
    app = App()

    @app.task(queue="work", keep_result=True)
    def check(login: Login) -> Login:
        return login

    @app.task(queue="work")
    def rename(value: list[Renamed]) -> None: ...

    login = Login(user="ada", password=SecretStr("swordfish"))
    with pytest.raises(TaskArgumentsError, match="Login does not read back") as refused:
        check.message(login)
    assert "swordfish" not in str(refused.value)
    with pytest.raises(PayloadNotStorableError, match="Login does not read back"):
        check.returns.encode(login)
    with pytest.raises(TaskArgumentsError, match="Renamed does not read back"):
        rename.message([Renamed.model_validate({"reads": "x"})])


async def test_a_wrong_value_of_a_model_names_the_field(client: AsyncClient, app: App) -> None:
    @app.task(queue="work")
    def task(model: Model) -> None: ...

    with pytest.raises(TaskArgumentsError, match="amount"):
        task.message({"when": NOW, "amount": "much"})  # type: ignore[arg-type]
