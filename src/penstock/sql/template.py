"""The template language of the SQL files: README.md describes it.

Directives are comment lines that begin with `--:`. Placeholders stand in braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

# The numbers of the last segment and of the last time slot of history, which the layout defines.
_LAST_SEGMENT: Final = "ring.last_segment"
_LAST_HISTORY_SLOT: Final = "history.last_slot"
_MARKER: Final = "-- from "
_DIRECTIVE: Final = re.compile(r"\s*--: ?(.*?)\s*")
_DEFINE: Final = re.compile(r"define ([a-z0-9_.]+)(?:\(([a-z_, ]+)\))? as(?: (.+))?")
_PLACEHOLDER: Final = re.compile(r"\{([a-z]\w*(?:\.[a-z]\w*)*)(?:\(([^{}]*)\))?\}")
_UNFINISHED: Final = re.compile(r"\{[a-z]\w*(?:\.[a-z]\w*)*\(")


class TemplateError(Exception):
    """A template is wrong. The message begins with the file and the line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a source file."""

    file: str
    number: int
    text: str

    @property
    def directive(self) -> str | None:
        match = _DIRECTIVE.fullmatch(self.text)
        return match[1] if match else None

    @property
    def marker(self) -> str:
        return f"{_MARKER}{self.file}:{self.number}"

    @property
    def next(self) -> Line:
        return replace(self, number=self.number + 1)

    def error(self, problem: str) -> TemplateError:
        return TemplateError(f"{self.file}:{self.number}: {problem}")


@dataclass(frozen=True, slots=True)
class Macro:
    """What a placeholder stands for. The body names the parameters in braces.

    `lines` are the lines of a body that has several.
    """

    body: str
    parameters: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()

    def with_arguments(self, text: str, arguments: list[str]) -> str:
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            text = text.replace(f"{{{parameter}}}", argument)
        return text


def lines_of(file: str, text: str) -> list[Line]:
    return [Line(file, number, line) for number, line in enumerate(text.splitlines(), 1)]


def definitions(lines: list[Line]) -> dict[str, Macro]:
    """The macros that a file defines. Everything else in it is ignored."""
    macros: dict[str, Macro] = {}
    rest = lines
    while rest:
        line, rest = rest[0], rest[1:]
        if line.directive is not None:
            rest = _define(line, rest, macros)
    return macros


def expand(lines: list[Line], macros: Mapping[str, Macro]) -> Iterator[str]:
    """The lines of SQL that a file stands for, once for each of its variants."""
    for variant in _variants(lines):
        yield from _expand(variant, dict(macros))


def _expand(lines: list[Line], macros: dict[str, Macro]) -> Iterator[str]:
    rest = lines
    while rest:
        line, rest = rest[0], rest[1:]
        directive = line.directive
        if directive is None:
            if line.text.startswith(("create ", "do ")):
                yield line.marker
            yield _fill(line, macros)
        elif directive.startswith("define "):
            rest = _define(line, rest, macros)
        else:
            block, rest = _block(line, rest)
            yield from _repeat(line, block, macros)
            if rest:
                yield rest[0].marker


def _variants(lines: list[Line]) -> Iterator[list[Line]]:
    """The file as it stands, then once more for each `variant`, with its replacements made."""
    rules: list[list[Line]] = []
    body: list[Line] = []
    for line in lines:
        directive = line.directive or ""
        if directive.startswith("variant "):
            rules.append([])
        elif " => " in directive:
            if not rules:
                raise line.error("a replacement must follow a variant directive")
            rules[-1].append(line)
        else:
            body.append(line)
    yield body
    for replacements in rules:
        variant = body
        for rule in replacements:
            variant = _replaced(variant, rule)
        yield variant


def _replaced(lines: list[Line], rule: Line) -> list[Line]:
    old, new = (rule.directive or "").split(" => ")
    # `claim.` must not match in `_claim.`
    pattern = re.compile(rf"(?<![\w.]){re.escape(old.strip())}")
    result = [replace(line, text=pattern.sub(lambda _: new.strip(), line.text)) for line in lines]
    if result == lines:
        raise rule.error(f"the file does not contain {old.strip()!r}")
    return result


def _define(line: Line, rest: list[Line], macros: dict[str, Macro]) -> list[Line]:
    """Adds a macro; returns the lines after its definition."""
    match = _DEFINE.fullmatch(line.directive or "")
    if match is None:
        raise line.error("write `define name(parameters) as expression`")
    name, parameters, body = match.groups()
    if name in macros:
        raise line.error(f"{{{name}}} is defined already")
    names = tuple(re.split(r", *", parameters)) if parameters else ()
    if body is not None:
        macros[name] = Macro(body, names)
        return rest
    block, rest = _block(line, rest)
    text = "\n".join(inner.text for inner in block).strip()
    macros[name] = Macro(text, names, tuple(block) if len(block) > 1 else ())
    return rest


def _block(line: Line, rest: list[Line]) -> tuple[list[Line], list[Line]]:
    """The lines up to `end`, and the lines after it."""
    for index, inner in enumerate(rest):
        if inner.directive == "end":
            return rest[:index], rest[index + 1 :]
        if inner.directive is not None:
            raise inner.error("blocks do not nest")
    raise line.error("there is no `--: end` for this block")


def _repeat(line: Line, block: list[Line], macros: Mapping[str, Macro]) -> Iterator[str]:
    match line.directive:
        case "branch on slot":
            yield from _branch(block, macros, _numbers(line, macros))
            return
        case "for each segment":
            slots = _numbers(line, macros)
        case "for each ring segment":
            slots = _numbers(line, macros)[1:]
        case "for each history slot":
            slots = _numbers(line, macros, _LAST_HISTORY_SLOT)
        case directive:
            raise line.error(f"there is no directive {directive!r}")
    for slot in slots:
        yield from _copy(block, slot, macros)


def _numbers(line: Line, macros: Mapping[str, Macro], last: str = _LAST_SEGMENT) -> range:
    if last not in macros:
        raise line.error(f"{{{last}}} is not defined")
    return range(int(macros[last].body) + 1)


def _branch(block: list[Line], macros: Mapping[str, Macro], slots: range) -> Iterator[str]:
    """A tree of IFs, three or four comparisons deep. A CASE would need up to nine."""
    if len(slots) == 1:
        yield from _copy(block, slots[0], macros)
        return
    half = len(slots) // 2
    yield f"if slot <= {slots[half - 1]} then"
    yield from _branch(block, macros, slots[:half])
    yield "else"
    yield from _branch(block, macros, slots[half:])
    yield "end if;"


def _copy(block: list[Line], slot: int, macros: Mapping[str, Macro]) -> Iterator[str]:
    if block:
        yield f"{block[0].marker}, segment {slot}"
    known = {**macros, "slot": Macro(str(slot))}
    for line in block:
        yield _fill(line, known, f", segment {slot}")


def _fill(line: Line, macros: Mapping[str, Macro], block: str = "") -> str:
    """The line with its placeholders replaced, the innermost first.

    Markers precede the lines of a macro and the rest of the line that uses it, so that the position
    of an error leads to its source. `block` is their note about the block around the line.
    """

    def value(match: re.Match[str]) -> str:
        name, given = match.groups()
        macro = macros.get(name)
        if macro is None:
            raise line.error(f"{{{name}}} is not defined")
        arguments = _arguments(given or "")
        if len(arguments) != len(macro.parameters):
            raise line.error(f"{{{name}}} takes {len(macro.parameters)} arguments")
        if not macro.lines:
            return macro.with_arguments(macro.body, arguments)
        body = [
            _fill(replace(inner, text=macro.with_arguments(inner.text, arguments)), macros)
            for inner in macro.lines
        ]
        back = f"{line.marker}{block}"
        return "\n".join(["", macro.lines[0].marker, *body, back, ""])

    text = line.text
    while (filled := _PLACEHOLDER.sub(value, text)) != text:
        text = filled
    if _UNFINISHED.search(text):
        raise line.error("a placeholder must end on the line where it begins")
    return _marked(text, f"{line.next.marker}{block}") if f"\n{_MARKER}" in text else text


def _marked(text: str, following: str) -> str:
    """The lines of a text with markers, without those that precede no line."""
    lines = [part for part in text.split("\n") if part.strip()]
    kept = [
        each
        for each, after in zip(lines, [*lines[1:], None], strict=True)
        if after is None or not (each.startswith(_MARKER) and after.startswith(_MARKER))
    ]
    if kept[-1].startswith(_MARKER):
        kept[-1] = following
    return "\n".join(part.rstrip() for part in kept)


def _arguments(text: str) -> list[str]:
    """Split at the commas outside parentheses; an expression gets parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    stripped = [part.strip() for part in parts if part.strip()]
    return [part if _is_simple(part) else f"({part})" for part in stripped]


def _is_simple(expression: str) -> bool:
    """A name, a number or a call: no operator can split it."""
    without_calls = expression
    while (shorter := re.sub(r"\([^()]*\)", "", without_calls)) != without_calls:
        without_calls = shorter
    return " " not in without_calls
