"""The result of a call: encoded by the worker, decoded by its type for the caller."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, get_type_hints

from penstock.errors import ConfigurationError, PayloadNotStorableError, PayloadTooLargeError
from penstock.tasks.codec import ENCODE_ERRORS, Codec, DecodeError, Decoder

MAX_BYTES: Final = 1_048_576


class Returns:
    """What a task returns, read from the annotation of its function."""

    def __init__(
        self, task: str, function: Callable[..., Any], codec: Codec, keep_seconds: int | None
    ) -> None:
        self.keep_seconds = keep_seconds
        self._task = task
        self._function = function
        self._codec = codec

    def encode(self, value: Any) -> str:
        """JSON text of a value. PayloadNotStorableError if there is none."""
        try:
            text = self._codec.encode(value, f"result of task {self._task!r}")
        except ENCODE_ERRORS as error:
            raise PayloadNotStorableError(
                f"the result of task {self._task!r} cannot be stored: {error}",
                hint="Return a type that JSON can carry, or use app.register_type().",
            ) from error
        if len(text) > MAX_BYTES:
            raise PayloadTooLargeError(
                f"the result of task {self._task!r} has {len(text)} characters of JSON;"
                f" at most {MAX_BYTES} are kept",
                hint="Store the bulk elsewhere and return a reference to it.",
            )
        return text

    def decode(self, text: str) -> Any:
        try:
            return self._decoder.decode(text)
        except (DecodeError, *ENCODE_ERRORS) as error:
            raise PayloadNotStorableError(
                f"the result of task {self._task!r} does not match its annotation: {error}",
                hint="Annotate the function with the type that it returns.",
            ) from error

    def resolve(self) -> None:
        """Resolve the annotation now, if results are kept."""
        if self.keep_seconds is not None:
            _ = self._decoder

    @cached_property
    def _decoder(self) -> Decoder[Any]:
        type_ = get_type_hints(self._function, include_extras=True).get("return", Any)
        try:
            return self._codec.decoder(type_)
        except TypeError as error:
            raise ConfigurationError(
                f"the result of task {self._task!r} cannot be kept: {error}",
                hint="Annotate it with a type that JSON can carry, or use app.register_type().",
            ) from error
