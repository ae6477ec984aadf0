"""Values of annotated types as JSON text, and back. No I/O.

msgspec knows the types of the standard library: datetime, UUID, Decimal, Enum, dataclass, set,
tuple, TypedDict, NamedTuple. Pydantic models and types that the application registers are added
here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import msgspec.inspect

from penstock.commands.payload import storable_json

T = TypeVar("T")

UNSET = msgspec.UNSET
ENCODE_ERRORS = (TypeError, ValueError, NotImplementedError, RecursionError, OverflowError)
"""What `encode` raises for a value that it cannot encode; `PenstockError` if PostgreSQL cannot
store the text."""
DecodeError = msgspec.DecodeError


class _OwnType(NamedTuple):
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class Codec:
    """The types of one application."""

    def __init__(self) -> None:
        self._own: dict[type, _OwnType] = {}
        self._encoder = msgspec.json.Encoder(enc_hook=self._encode_own, decimal_format="string")

    def register(
        self, type_: type[T], encode: Callable[[T], Any], decode: Callable[[Any], T]
    ) -> None:
        """Register a type. `encode` returns a value of a known type, `decode` reads it."""
        self._own[type_] = _OwnType(encode, decode)

    def encode(self, value: Any, what: str) -> str:
        """JSON text that jsonb stores unchanged; `what` names the value in errors."""
        return storable_json(self._encoder.encode(value).decode(), what)

    def decoder(self, type_: Any) -> Decoder[Any]:
        """Reads values of a type. TypeError if the type cannot be read from JSON."""
        return Decoder(msgspec.json.Decoder(type_, dec_hook=self._decode_own))

    def may_change(self, type_: Any) -> bool:
        """Whether JSON can change a value of this type silently, and a comparison finds out.

        Where anything is allowed, a tuple comes back as a list and a date as text. NaN comes back
        as None, where that is allowed.
        """
        nodes = list(_nodes(msgspec.inspect.type_info(type_), set()))
        classes = [getattr(node, "cls", None) for node in nodes]
        can_compare = all(
            each is None or each is object or each.__eq__ is not object.__eq__ for each in classes
        )
        return can_compare and any(map(_is_open, nodes))

    def _encode_own(self, value: Any) -> Any:
        for type_ in type(value).__mro__:
            if type_ in self._own:
                return self._own[type_].encode(value)
        if _is_pydantic(type(value)):
            return _encode_model(value)
        raise NotImplementedError(f"values of type {type(value).__qualname__} cannot be encoded")

    def _decode_own(self, type_: type, value: Any) -> Any:
        if type_ in self._own:
            return self._own[type_].decode(value)
        if _is_pydantic(type_):
            # As JSON, because strict models accept a date as text there only.
            return type_.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]
        if type_ is object:
            return value
        raise NotImplementedError(f"values of type {type_.__qualname__} cannot be decoded")


class Decoder(Generic[T]):
    """Reads JSON text as values of one type."""

    def __init__(self, decoder: msgspec.json.Decoder[T]) -> None:
        self.decode: Callable[[str], T] = decoder.decode


def arguments_type(name: str, fields: list[tuple[str, Any, bool]], *, kw_only: bool) -> Any:
    """A type with a field for each parameter: (name, type, whether it may be left out)."""
    return msgspec.defstruct(
        name,
        [
            (field, type_, UNSET) if optional else (field, type_)
            for field, type_, optional in fields
        ],
        forbid_unknown_fields=True,
        kw_only=kw_only,
    )


def _encode_model(model: Any) -> msgspec.Raw:
    """The JSON of a pydantic model. ValueError if the same model cannot be read from it."""
    text = model.model_dump_json(by_alias=True, round_trip=True)
    try:
        is_same = type(model).model_validate_json(text) == model
    except ValueError:
        is_same = False
    if not is_same:
        raise ValueError(
            f"the model {type(model).__qualname__} does not read back from its JSON unchanged;"
            " secrets, excluded fields, private attributes and aliases of one direction are causes"
        )
    return msgspec.Raw(text.encode())


def _nodes(type_: Any, seen: set[int]) -> Iterator[msgspec.inspect.Type]:
    """The type and all types inside it. A type may contain itself."""
    if id(type_) in seen:
        return
    seen.add(id(type_))
    if isinstance(type_, msgspec.inspect.Type):
        yield type_
    for name in type_.__struct_fields__:
        value = getattr(type_, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, (msgspec.inspect.Type, msgspec.inspect.Field)):
                yield from _nodes(each, seen)


def _is_open(type_: msgspec.inspect.Type) -> bool:
    if isinstance(type_, msgspec.inspect.UnionType):
        kinds = {type(each) for each in type_.types}
        return {msgspec.inspect.FloatType, msgspec.inspect.NoneType} <= kinds
    return isinstance(type_, msgspec.inspect.AnyType) or getattr(type_, "cls", None) is object


def _is_pydantic(type_: type) -> bool:
    """Pydantic is optional: a model exists only where the application has imported it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(type_, pydantic.BaseModel)
