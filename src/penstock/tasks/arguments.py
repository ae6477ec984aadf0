"""The arguments of a call as the payload of a message: bound and checked, encoded and decoded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from inspect import Parameter
from typing import Any, Final, get_type_hints

from penstock.commands.payload import JsonText
from penstock.errors import ConfigurationError, TaskArgumentsError
from penstock.tasks.codec import (
    ENCODE_ERRORS,
    UNSET,
    Codec,
    DecodeError,
    Decoder,
    arguments_type,
)

_TYPES_HINT: Final = "Annotate it with a type that JSON can carry, or use app.register_type()."


class Arguments:
    """The parameters of a task, read from the signature of its function.

    The payload is a JSON object with the arguments by name. Arguments that the caller left out are
    left out there, too: the worker fills in its defaults. Annotations are resolved
    at the first use, when every name that they mention is defined.
    """

    def __init__(self, task: str, function: Callable[..., Any], codec: Codec) -> None:
        self._task = task
        self._function = function
        self._codec = codec
        self.signature = _unquoted(inspect.signature(function))
        self._parameters = list(self.signature.parameters.values())
        self._is_plain = all(p.kind is Parameter.POSITIONAL_OR_KEYWORD for p in self._parameters)
        self._has_optional = any(_is_optional(p) for p in self._parameters)

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JsonText:
        """The payload. TaskArgumentsError if a worker could not call the task with it."""
        call = self._bind(args, kwargs)
        try:
            text = self._codec.encode(call, f"call of task {self._task!r}")
        except ENCODE_ERRORS as error:
            raise self._refused(str(error), _TYPES_HINT) from error
        read = self._decode(text)
        for name in self._compared:
            self._check_same(name, getattr(read, name), getattr(call, name))
        return JsonText(text)

    def encode_rest(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[JsonText, str]:
        """The payload without the first argument, and the name of that argument."""
        first = self._parameters[0] if self._parameters else None
        if first is None or first.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise self._refused(
                "it has no first argument, which a step of a chain needs",
                "Use si() for a step that takes nothing from the previous step.",
            )
        try:
            if first.kind is Parameter.KEYWORD_ONLY:
                bound = self.signature.bind(*args, **{first.name: None, **kwargs})
            else:
                bound = self.signature.bind(None, *args, **kwargs)
        except TypeError as error:
            hint = f"Leave out {first.name}: it is the result of the step before."
            raise self._refused(str(error), hint) from None
        rest = {name: value for name, value in bound.arguments.items() if name != first.name}
        try:
            text = self._codec.encode(rest, f"call of task {self._task!r}")
            read = self._rest_decoder.decode(text)
        except (DecodeError, *ENCODE_ERRORS) as error:
            raise self._refused(str(error), f"Its signature is {self.signature}.") from error
        for name in rest.keys() & self._compared:
            self._check_same(name, getattr(read, name), rest[name])
        return JsonText(text), first.name

    def decode(self, text: str | None) -> tuple[list[Any], dict[str, Any]]:
        """The arguments to call the function with. TaskArgumentsError if they do not fit it."""
        call = self._decode(text or "null")
        if self._is_plain and not self._has_optional:
            return [getattr(call, p.name) for p in self._parameters], {}
        return self._unpack(call)

    def unknown(self, names: AbstractSet[str]) -> set[str]:
        """Those of the names that the function does not take as arguments."""
        if any(p.kind is Parameter.VAR_KEYWORD for p in self._parameters):
            return set()
        return {name for name in names if name not in self.signature.parameters}

    def resolve(self) -> None:
        """Resolve the annotations now. ConfigurationError if a type cannot be used."""
        _ = self._decoder

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        try:
            if self._is_plain:
                return self._type(*args, **kwargs)
            return self._type(**self.signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise self._unbound(args, kwargs, error) from None

    def _unbound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError
    ) -> TaskArgumentsError:
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as said_by_python:
            error = said_by_python
        return self._refused(
            str(error),
            f"Call it as {self._task}{self.signature}. The arguments can be followed by options of "
            "the message, such as delay=60.",
        )

    def _decode(self, text: str) -> Any:
        try:
            return self._decoder.decode(text)
        except (DecodeError, *ENCODE_ERRORS) as error:
            raise self._refused(str(error), f"Its signature is {self.signature}.") from error

    def _check_same(self, name: str, read: Any, value: Any) -> None:
        if read != value:
            raise self._refused(
                f"{name} is {value!r:.200}, which JSON does not carry unchanged", _TYPES_HINT
            )

    def _unpack(self, call: Any) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        rest = getattr(call, self._rest, UNSET) if self._rest else UNSET
        for parameter in self._parameters:
            value = getattr(call, parameter.name)
            if value is UNSET:
                continue
            if parameter.kind is Parameter.VAR_POSITIONAL:
                args += value
            elif parameter.kind is Parameter.VAR_KEYWORD:
                kwargs |= value
            elif parameter.kind is Parameter.POSITIONAL_ONLY or (
                rest is not UNSET and parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
            ):
                args.append(value)
            else:
                kwargs[parameter.name] = value
        return args, kwargs

    @cached_property
    def _rest(self) -> str | None:
        """The name of *args."""
        kind = Parameter.VAR_POSITIONAL
        return next((p.name for p in self._parameters if p.kind is kind), None)

    @cached_property
    def _types(self) -> dict[str, Any]:
        try:
            hints = get_type_hints(self._function, include_extras=True)
        except NameError as error:
            raise ConfigurationError(
                f"an annotation of task {self._task!r} cannot be resolved: {error}",
                hint="Import the type at run time, not under TYPE_CHECKING alone.",
            ) from error
        return {p.name: _field_type(p, hints.get(p.name, Any)) for p in self._parameters}

    @cached_property
    def _compared(self) -> list[str]:
        """Parameters whose values JSON can change silently."""
        return [name for name, type_ in self._types.items() if self._codec.may_change(type_)]

    @cached_property
    def _type(self) -> Any:
        fields = [(p.name, self._types[p.name], _is_optional(p)) for p in self._parameters]
        return arguments_type(self._task, fields, kw_only=not self._is_plain)

    @cached_property
    def _decoder(self) -> Decoder[Any]:
        try:
            return self._codec.decoder(self._type)
        except TypeError as error:
            raise ConfigurationError(
                f"the arguments of task {self._task!r} cannot be sent: {error}", hint=_TYPES_HINT
            ) from error

    @cached_property
    def _rest_decoder(self) -> Decoder[Any]:
        """Reads the arguments without the first one."""
        rest = self._parameters[1:]
        fields = [(p.name, self._types[p.name], _is_optional(p)) for p in rest]
        return self._codec.decoder(arguments_type(self._task, fields, kw_only=True))

    def _refused(self, reason: str, hint: str) -> TaskArgumentsError:
        return TaskArgumentsError(
            f"task {self._task!r} cannot be called like this: {reason}", hint=hint, task=self._task
        )


class _Text(str):
    """An annotation that was not evaluated, shown in errors without quotes."""

    __repr__ = str.__str__


def _unquoted(signature: inspect.Signature) -> inspect.Signature:
    parameters = [
        each.replace(annotation=_unquoted_annotation(each.annotation))
        for each in signature.parameters.values()
    ]
    returns = _unquoted_annotation(signature.return_annotation)
    return signature.replace(parameters=parameters, return_annotation=returns)


def _unquoted_annotation(annotation: Any) -> Any:
    return _Text(annotation) if isinstance(annotation, str) else annotation


def _is_optional(parameter: Parameter) -> bool:
    variadic = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return variadic or parameter.default is not Parameter.empty


def _field_type(parameter: Parameter, annotation: Any) -> Any:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return tuple[annotation, ...]
    if parameter.kind is Parameter.VAR_KEYWORD:
        return dict[str, annotation]
    return annotation
