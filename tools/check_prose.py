"""Check the English of documents, comments and messages against a list of forms that we do not use.

Documents are also searched for sentences with more than one colon or semicolon.

    python tools/check_prose.py              every file that is covered
    python tools/check_prose.py PATH ...     these files, covered or not

Each finding is one line: file:line:column, the form, and what to write instead. `--list` prints the
rules and the files that are not covered; both are in prose_rules.toml. To keep a form, add it to
`allowed` there, or write `prose: allow FORM, because ...` in a comment on the same line.

Vale would do this with a configuration file, but no package on PyPI contains it. The package `vale`
downloads the program from GitHub when it first runs, and `make check` needs a package index only.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: str
    instead: str
    why: str
    # Text that the rule finds, and similar text that it does not: tests/test_prose.py tries both.
    example: str
    near_miss: str


_TABLE = tomllib.loads(Path(__file__).with_name("prose_rules.toml").read_text(encoding="utf-8"))
RULES = [Rule(**entry) for entry in _TABLE["rules"]]
ALLOWED = [(each["files"], each["form"]) for each in _TABLE.get("allowed", ())]
NOT_COVERED: dict[str, str] = _TABLE["not_covered"]

_KINDS = (".md", ".py", ".sql", ".html")
# Files of which only the comments are read.
_SLASH_COMMENTS = (".js", ".mjs", ".ts", ".css")
_HASH_COMMENTS = (".toml", ".conf", ".service", "Makefile", "Dockerfile", "Caddyfile")
# Their values are prose too, such as the descriptions of alerts.
_YAML = (".yml", ".yaml")
_ENDINGS = (*_KINDS, *_SLASH_COMMENTS, *_HASH_COMMENTS, *_YAML)
_ALLOW_HERE = re.compile(r"prose: allow ([^,]+), because \w+", re.IGNORECASE)
_COMPILED = [(rule, re.compile(rule.pattern, re.IGNORECASE)) for rule in RULES]


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    line: int
    column: int
    form: str
    instead: str
    why: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}"
        return f"{place}: {self.form!r} ({self.why}); write: {self.instead}"


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of one line. A passage is a list of pieces, so a form that spans two lines is found."""

    line: int
    column: int
    text: str


Passage = list[Piece]


def check_text(path: str, text: str) -> list[Finding]:
    """The findings in one file. The ending of `path` decides how the text is read."""
    lines = text.split("\n")
    found = []
    for passage in passages(path, text):
        joined = " ".join(piece.text for piece in passage)
        starts = _starts(passage)
        for rule, pattern in _COMPILED:
            for match in pattern.finditer(joined):
                piece = passage[index := bisect_right(starts, match.start()) - 1]
                column = piece.column + match.start() - starts[index]
                form = match[0]
                if not _allowed(path, form, lines[piece.line - 1]):
                    found.append(Finding(path, piece.line, column, form, rule.instead, rule.why))
        if path.endswith(".md"):
            found += _long_sentences(path, passage, joined, starts)
    return sorted(found, key=lambda finding: (finding.line, finding.column))


_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?](?=[)\"*_]*(?: |$))|\|")
# Not the colon of a time of day, a ratio or an address, which has no space after it.
_PAUSE = re.compile(r"[:;](?=[\s*_)\u00b7]|$)")


def _long_sentences(
    path: str, passage: Passage, joined: str, starts: list[int]
) -> Iterator[Finding]:
    """Sentences with more than one colon or semicolon. A cell of a table counts as a sentence."""
    start = 0
    for end in [match.end() for match in _SENTENCE_END.finditer(joined)] + [len(joined)]:
        pauses = list(_PAUSE.finditer(joined, start, end))
        if len(pauses) > 1:
            place = pauses[1].start()
            piece = passage[index := bisect_right(starts, place) - 1]
            column = piece.column + place - starts[index]
            yield Finding(
                path, piece.line, column, pauses[1][0], "two sentences", "second colon or semicolon"
            )
        start = end


def passages(path: str, text: str) -> Iterator[Passage]:
    """The prose of a file: whole paragraphs, comments and messages, without code."""
    if path.endswith(_SLASH_COMMENTS):
        yield from _comments(_SLASH_COMMENT, text)
    elif path.endswith(_HASH_COMMENTS):
        yield from _comments(_HASH_COMMENT, text)
    elif path.endswith(_YAML):
        yield from _yaml(text)
    match Path(path).suffix:
        case ".md":
            yield from _markdown(text)
        case ".py":
            yield from _python(text, one_word_is_data=path.startswith("tests/"))
        case ".sql":
            yield from _sql(text)
        case ".html":
            yield from _html(text)


def _starts(passage: Passage) -> list[int]:
    starts, offset = [], 0
    for piece in passage:
        starts.append(offset)
        offset += len(piece.text) + 1
    return starts


def _allowed(path: str, form: str, line: str) -> bool:
    here = _ALLOW_HERE.search(line)
    if here is not None and here[1].strip().lower() == form.lower():
        return True
    return any(
        fnmatch.fnmatch(path, where) and form.lower() == what.lower() for where, what in ALLOWED
    )


def _blank(match: re.Match[str]) -> str:
    """Code becomes a character that no rule matches. Line breaks stay, so that positions do."""
    return re.sub(r"[^\n]", "\u00b7", match[0])


_FENCED = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK_TARGET = re.compile(r"(?<=\])\([^)\n]*\)")
# The directive that inserts the docstrings of a module.
_DIRECTIVE = re.compile(r"^:::.*(?:\n +.*)*", re.MULTILINE)
_NEW_BLOCK = re.compile(r"\s*(?:[-*] |\d+\. |#|\||$)")


def _markdown(text: str) -> Iterator[Passage]:
    for code in (_FENCED, _INLINE_CODE, _LINK_TARGET, _DIRECTIVE):
        text = code.sub(_blank, text)
    yield from _paragraphs(
        Piece(number, 1, line) for number, line in enumerate(text.split("\n"), 1)
    )


def _paragraphs(pieces: Iterable[Piece]) -> Iterator[Passage]:
    """Join adjacent lines up to an empty line, a list item, a heading or a table row."""
    passage: Passage = []
    for piece in pieces:
        apart = passage and piece.line != passage[-1].line + 1
        if passage and (apart or _NEW_BLOCK.match(piece.text)):
            yield passage
            passage = []
        if text := piece.text.strip():
            indent = len(piece.text) - len(piece.text.lstrip())
            passage.append(Piece(piece.line, piece.column + indent, text))
    if passage:
        yield passage


def _python(text: str, *, one_word_is_data: bool) -> Iterator[Passage]:
    comments = []
    texts = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line, column = token.start
        if token.type == tokenize.COMMENT:
            comments.append(Piece(line, column + 3, token.string[1:].removeprefix(" ")))
        elif token.type in texts:
            # Without its quotes, so that a rule can find the end of the text.
            quoted = _PYTHON_QUOTES.fullmatch(token.string)
            opening, text_of = (quoted[1], quoted[3]) if quoted else ("", token.string)
            if one_word_is_data and len(text_of.split()) < 2:
                continue
            yield from _paragraphs(_lines(line, column + len(opening) + 1, text_of))
    yield from _paragraphs(comments)


_PYTHON_QUOTES = re.compile(r"([a-zA-Z]*(\"{3}|'{3}|\"|'))(.*)\2", re.DOTALL)

_SQL_COMMENT = re.compile(r"--(?!:)[ ]?(.*)")
# A quote in a quote is written twice. A quote of two words or more is prose, if it is not a
# statement.
_SQL_QUOTE = re.compile(r"'((?:[^'\n]|'')*)'")
_SQL_STATEMENT = re.compile(
    r"\s*(?:select|insert|update|delete|alter|create|drop|truncate|lock|grant|revoke|set|with|copy)\b"
)
_WORD = re.compile(r"[A-Za-z]{2,}")


def _sql(text: str) -> Iterator[Passage]:
    comments = []
    for number, line in enumerate(text.split("\n"), 1):
        code = line
        # A comment begins outside quotes, of which the part before it has an even number.
        for match in _SQL_COMMENT.finditer(line):
            if line[: match.start()].count("'") % 2 == 0:
                code = line[: match.start()]
                comments.append(
                    Piece(number, match.start(1) + 1, _INLINE_CODE.sub(_blank, match[1]))
                )
                break
        for quote in _SQL_QUOTE.finditer(code):
            if len(_WORD.findall(quote[1])) >= 2 and not _SQL_STATEMENT.match(quote[1]):
                yield [Piece(number, quote.start(1) + 1, quote[1])]
    yield from _paragraphs(comments)


_JINJA = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_HTML_CODE = re.compile(r"<(script|style|code|pre)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
# Of a tag only the attributes that a reader sees are prose.
_HTML_TAG = re.compile(r"<[^>]*>", re.DOTALL)
_SHOWN = re.compile(r'\b(?:title|alt|placeholder|aria-label|data-confirm)="([^"]*)"')


def _html(text: str) -> Iterator[Passage]:
    text = _HTML_CODE.sub(_blank, _JINJA.sub(_blank, text))
    text = _HTML_TAG.sub(_blank_tag, text)
    yield from _paragraphs(_lines(1, 1, text))


def _blank_tag(match: re.Match[str]) -> str:
    blank = list(_blank(match))
    for shown in _SHOWN.finditer(match[0]):
        blank[shown.start(1) : shown.end(1)] = shown[1]
    return "".join(blank)


# Quoted text comes first, because it can contain the characters that begin a comment.
_QUOTED = r"""\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"""
_SLASH_COMMENT = re.compile(
    _QUOTED + r"|`(?:\\.|[^`\\])*`|//+(?P<line>.*)|/\*+(?P<block>(?:[^*]|\*(?!/))*)\*/"
)
_HASH_COMMENT = re.compile(_QUOTED + r"|(?:^|(?<=\s))#+(?P<line>.*)", re.MULTILINE)
_STAR = re.compile(r"^(\s*)\*(?= |$)", re.MULTILINE)


def _comments(comment: re.Pattern[str], text: str) -> Iterator[Passage]:
    """The comments of a file. The passages of adjacent line comments are joined."""
    pieces = []
    for match in comment.finditer(text):
        if match.lastgroup is not None:
            before, begin = text[: match.start(match.lastgroup)], match.start(match.lastgroup)
            column = begin - before.rfind("\n")
            body = _INLINE_CODE.sub(_blank, match[match.lastgroup])
            pieces += _lines(before.count("\n") + 1, column, _STAR.sub(r"\1 ", body))
    yield from _paragraphs(pieces)


_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_HASH = re.compile(r"(?:^|(?<=\s))#")


def _yaml(text: str) -> Iterator[Passage]:
    text = _INLINE_CODE.sub(_blank, _TEMPLATE.sub(_blank, text))
    yield from _paragraphs(_lines(1, 1, _HASH.sub(" ", text)))


def _lines(line: int, column: int, text: str) -> Iterator[Piece]:
    for number, part in enumerate(text.split("\n")):
        yield Piece(line + number, column if number == 0 else 1, part)


def covered_files() -> list[str]:
    """The files of the repository that have prose in them, without those of NOT_COVERED."""
    return [path for path in files() if not _not_covered(path)]


def files() -> list[str]:
    """The files of the repository that have prose in them, new ones included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [
        name for name in listed.split("\0") if name.endswith(_ENDINGS) and (ROOT / name).exists()
    ]


def _not_covered(path: str) -> bool:
    return any(fnmatch.fnmatch(path, where) for where in NOT_COVERED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Find forms in documents, comments and messages that we do not use."
    )
    parser.add_argument(
        "paths", nargs="*", help="files to check, covered or not (default: every covered file)"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the rules and the files that are not covered"
    )
    options = parser.parse_args(arguments)
    if options.list:
        _print_rules()
        return 0
    paths = [Path(path) for path in options.paths] or [ROOT / path for path in covered_files()]
    unreadable = [path for path in paths if not path.name.endswith(_ENDINGS) or not path.is_file()]
    if unreadable:
        parser.error(f"not a file that ends in {', '.join(_ENDINGS)}: {unreadable[0]}")
    findings = [finding for path in paths for finding in _check_file(path.resolve())]
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} forms to rewrite. `--list` prints the rules.", file=sys.stderr)
    return 1 if findings else 0


def _check_file(path: Path) -> list[Finding]:
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return check_text(str(name), path.read_text(encoding="utf-8"))


def _print_rules() -> None:
    for rule in RULES:
        print(f"{rule.example!r}: {rule.why}; write: {rule.instead}")
    print("\nNot covered:")
    for where, why in NOT_COVERED.items():
        print(f"  {where}: {why}")


if __name__ == "__main__":
    sys.exit(main())
