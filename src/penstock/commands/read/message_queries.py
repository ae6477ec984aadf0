"""Messages: one with its attempts, lists by filter, and pages for the UI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from datetime import UTC, datetime
from typing import Any, Final, get_args

from penstock.commands import arguments as check
from penstock.commands.command import Command, Rows, call, utc, utc_row
from penstock.commands.payload import JsonText, decode_json
from penstock.commands.read.paging import page_size
from penstock.errors import (
    MessageNotFoundError,
)
from penstock.model.message import Attempt, FinalState, LiveState, Message, State
from penstock.model.message_page import (
    BrowseState,
    MessageFilter,
    MessagePage,
    MessageRow,
    SearchPart,
)
from penstock.sql.loader import load_query

PAGE: Final = 50
# Rows that one page may scan, about 2 microseconds each.
LOOK: Final = 10_000
# The limit of one step of a search. The first results should appear within half a second.
SEARCH_MILLISECONDS: Final = 300
_SEARCH_PARTS: Final = call("search_parts")
_HELD_LEASES: Final = call("held_leases", ids="bigint[]", tokens="bigint[]")
_FINISHED: Final = frozenset(get_args(FinalState)) - frozenset(get_args(LiveState))


def message(id: int, *, as_text: bool = False) -> Command[Message]:
    """A message in any state, live or finished, with its attempts.

    With `as_text`, its JSON is JsonText, for a caller that passes it on: it has every digit of its
    numbers, and is as deep as PostgreSQL allows.
    """

    def decode(rows: Rows) -> Message:
        if not rows:
            raise MessageNotFoundError(
                f"message {id} does not exist",
                hint="It was never committed, or its queue no longer keeps its history.",
                id=id,
            )
        found = (_message_as_text if as_text else _message)(rows[0])
        return replace(found, attempts=_attempts(rows[0][-1]))

    params = {"id": check.whole("id", id, check.INT8)}
    return Command(load_query("read/message"), params, decode)


def messages(
    queue: str | None = None,
    state: State | None = None,
    *,
    key: str | None = None,
    error_like: str | None = None,
    after: int | None = None,
    limit: int = 100,
) -> Command[list[Message]]:
    """A page of messages by id: those that are live, or those that reached a final state.

    Dead letters are live: they can still be claimed and redriven. The next page begins `after`
    the last id of this one.
    """
    finished = state in _FINISHED
    params = {
        "queue": check.optional_text("queue", queue),
        "state": None if state is None else check.one_of("state", state, get_args(State)),
        "key": check.optional_text("key", key),
        "error_like": check.optional_text("error_like", error_like),
        "after": check.optional_whole("after", after, check.INT8),
        "limit": page_size(limit),
    }
    text = load_query("read/history" if finished else "read/messages")
    return Command(text, params, lambda rows: [_message(row) for row in rows])


def page(
    *,
    finished: bool,
    queues: Sequence[str] | None = None,
    states: Sequence[State] | None = None,
    key: str | None = None,
    error: str | None = None,
    enqueued_before: datetime | None = None,
    enqueued_after: datetime | None = None,
    after: int | None = None,
    limit: int = 100,
    max_bytes: int = 16 * 2**20,
    internal: bool = False,
) -> Command[tuple[list[Message], bool]]:
    """A page of live or of finished messages by id, from several queues, in several states.

    It has about `max_bytes` at most, and one message at least. The second value says whether more
    may follow. Messages of internal queues are in it only if `internal` is true. Their JSON is
    JsonText, as for `message`.
    """
    params = {
        "internal": check.truth("internal", internal),
        "queues": None if queues is None else [check.text("queue", name) for name in queues],
        "states": None if states is None else list(states),
        "key": check.optional_text("key", key),
        "error": check.optional_text("error", error),
        "enqueued_before": check.moment("enqueued_before", enqueued_before),
        "enqueued_after": check.moment("enqueued_after", enqueued_after),
        "after": check.optional_whole("after", after, check.INT8),
        "limit": page_size(limit),
        "max_bytes": check.whole("max_bytes", max_bytes, check.INT8),
    }

    def decode(rows: Rows) -> tuple[list[Message], bool]:
        found = rows[0][-1] if rows else 0
        return [_message_as_text(row) for row in rows], found == limit or len(rows) < found

    rows = load_query("read/finished_rows" if finished else "read/live_rows")
    return Command(load_query("read/page").replace("{rows}", rows), params, decode)


def browse(
    state: BrowseState,
    queues: list[str] | None = None,
    filter: MessageFilter | None = None,
    *,
    place: str | None = None,
    page: int = PAGE,
    look: int = LOOK,
) -> Command[MessagePage]:
    """A page of the messages in a state; the next begins at its `next`.

    A filter that few messages pass may leave a page short, or empty, with more to look at.
    """
    chosen = filter or MessageFilter()
    names = ("key", "error", "worker", "enqueued_before", "enqueued_after")
    params = {
        "state": check.one_of("state", state, get_args(BrowseState)),
        "queues": None if queues is None else [check.text("queues", name) for name in queues],
        **dict(zip(names, astuple(chosen), strict=True)),
        "place": check.optional_text("place", place),
        # One more than is shown, to know whether there are more.
        "page": check.whole("page", page) + 1,
        "look": check.whole("look", look),
    }

    return Command(load_query("read/browse"), params, lambda rows: _page(rows, page))


def search(
    wanted: str,
    queues: list[str] | None = None,
    *,
    payloads: bool = True,
    place: str | None = None,
    page: int = PAGE,
    milliseconds: int = SEARCH_MILLISECONDS,
) -> Command[MessagePage]:
    """A page of the messages that have a text somewhere, in any state and in history.

    It ends after some milliseconds with the messages found so far. `next` is None at the end.
    """
    params = {
        "wanted": check.text("wanted", wanted),
        "queues": None if queues is None else [check.text("queues", name) for name in queues],
        "payloads": check.truth("payloads", payloads),
        "place": check.optional_text("place", place),
        "page": check.whole("page", page),
        "milliseconds": check.whole("milliseconds", milliseconds),
    }
    return Command(load_query("read/search"), params, lambda rows: _page(rows, page))


def search_parts() -> Command[list[SearchPart]]:
    """The places that a search reads, in order."""
    return Command(_SEARCH_PARTS, {}, lambda rows: [SearchPart(*row) for row in rows])


def _page(rows: Rows, page: int) -> MessagePage:
    *found, (*_, next_place, looked) = rows
    shown = [MessageRow(*utc_row(row[:-1])) for row in found[:page]]
    more = shown[-1].place if len(found) > page else next_place
    return MessagePage(shown, looked, more)


def queues_of(ids: Sequence[int]) -> Command[dict[int, str]]:
    """id -> queue, of live messages."""
    params = {"ids": [check.whole("id", id, check.INT8) for id in ids]}
    return Command(
        load_query("read/queues_of"), params, lambda rows: {row[0]: row[1] for row in rows}
    )


def states_of(ids: Sequence[int]) -> Command[dict[int, tuple[str, State]]]:
    """id -> (queue, state), of live and finished messages."""
    params = {"ids": [check.whole("id", id, check.INT8) for id in ids]}
    return Command(
        load_query("read/states_of"),
        params,
        lambda rows: {row[0]: (row[1], row[2]) for row in rows},
    )


def held_leases(leases: Sequence[tuple[int, int]]) -> Command[set[int]]:
    """The ids of those leases that are neither settled nor expired nor lost."""
    params = {"ids": [id for id, _ in leases], "tokens": [token for _, token in leases]}
    return Command(_HELD_LEASES, params, lambda rows: {id for (id,) in rows})


def whereabouts(ids: Sequence[int]) -> Command[dict[int, tuple[str, str]]]:
    """The (queue, state) of each unfinished message."""
    params = {"ids": [check.whole("ids", id, check.INT8) for id in ids]}
    return Command(
        load_query("read/whereabouts"),
        params,
        lambda rows: {id: (queue, state) for id, queue, state in rows},
    )


def _message_as_text(row: Sequence[Any]) -> Message:
    return _message(row, lambda text: None if text is None else JsonText(text))


def _message(row: Sequence[Any], decode: Callable[[str | None], Any] = decode_json) -> Message:
    (_, id, queue, state, payload, raw, headers, key, priority, group, *rest) = row[:23]
    (attempt, max_attempts, *times, worker, last_error, original_queue) = rest
    fields: list[Any] = [id, queue, state, decode(payload) if raw is None else bytes(raw)]
    fields += [decode(headers) or {}, key, priority, group, attempt, max_attempts]
    fields += [*map(utc, times), worker, last_error, original_queue]
    return Message(*fields)


def _attempts(text: str | None) -> tuple[Attempt, ...]:
    return tuple(_attempt(*fields) for fields in decode_json(text) or [])


def _attempt(
    message_id: int,
    queue: str,
    attempt: int,
    worker: str | None,
    started_at: str,
    ended_at: str | None,
    error: str | None,
) -> Attempt:
    # Times are text inside JSON.
    ended = datetime.fromisoformat(ended_at).astimezone(UTC) if ended_at else None
    started = datetime.fromisoformat(started_at).astimezone(UTC)
    return Attempt(message_id, queue, attempt, worker, started, ended, error)
