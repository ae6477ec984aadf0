"""Values of annotated types as JSON text, and back. No I/O.

msgspec knows the types of the standard library: datetime, UUID, Decimal, Enum, dataclass, set,
tuple, TypedDict, NamedTuple. Pydantic models and types that the application registers are added
here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from penstock.commands.payload import storable_json

T = TypeVar("T")

UNSET = msgspec.UNSET
EncodeError: TypeAlias = TypeError | ValueError | NotImplementedError | RecursionError
"""What `encode` raises for a value that it cannot encode; `PenstockError` if PostgreSQL cannot
store the text."""
ENCODE_ERRORS = (TypeError, ValueError, NotImplementedError, RecursionError)
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

    def _encode_own(self, value: Any) -> Any:
        for type_ in type(value).__mro__:
            if type_ in self._own:
                return self._own[type_].encode(value)
        if _is_pydantic(type(value)):
            return value.model_dump(mode="json")
        raise NotImplementedError(f"values of type {type(value).__qualname__} cannot be encoded")

    def _decode_own(self, type_: type, value: Any) -> Any:
        if type_ in self._own:
            return self._own[type_].decode(value)
        if _is_pydantic(type_):
            return type_.model_validate(value)  # type: ignore[attr-defined]
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


def _is_pydantic(type_: type) -> bool:
    """Pydantic is optional: a model exists only where the application has imported it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(type_, pydantic.BaseModel)
