"""The errors of the engine in the words of HTTP.

The engine's errors are written for SQL and Python: they say queue, headers and lease_seconds, and
their hints are statements. A caller of the data plane knows topics, metadata and requests. The
control plane says queue, as the engine does, so only hints are replaced there. `/api/verbs` uses
the words of the engine.
"""

from __future__ import annotations

import re
from typing import Final

from penstock import errors as e
from penstock.server.transport.problems import Problem

_HINTS: Final[dict[str, str]] = {
    e.QueueNotFoundError.__name__: "Create it with POST /api/topic-configs. An enqueue without "
    "`Prefer: handling=strict` creates it too.",
    e.QueueExistsError.__name__: "Change it with PATCH /api/topic-configs/{topic}.",
    e.QueueNotEmptyError.__name__: "Purge the topic first, or send "
    "DELETE /api/topics/{topic}?force=true.",
    e.QueueHasSchedulesError.__name__: "Delete its schedules first, or send "
    "DELETE /api/topics/{topic}?force=true.",
    e.QueueFullError.__name__: "Nothing was changed. Try again later, consume faster, or raise "
    "max_depth of the topic.",
    e.LeaseLostError.__name__: "Nothing was changed. Stop work on this message. Extend leases in "
    "time, or dequeue with a longer visibility_timeout_seconds.",
    e.KeyConflictError.__name__: 'Nothing was enqueued. Send "on_conflict": "replace" or "skip", '
    "another key, or wait until the message is finished.",
    e.MessageNotFoundError.__name__: "It may have finished, and its topic may keep no history.",
    e.NotReplayableError.__name__: "Create the topic, or replay into another one.",
    e.ScheduleNotFoundError.__name__: "GET /api/schedules lists the schedules.",
    e.ScheduleExistsError.__name__: "Change it with PATCH /api/schedules/{schedule}.",
    e.ApiKeyNotFoundError.__name__: "GET /api/keys lists the keys.",
    e.WorkerNotFoundError.__name__: "GET /api/workers lists the workers.",
    e.SubscriptionNotFoundError.__name__: "GET /api/subscriptions lists the subscriptions.",
}
_CONTROL_PLANE: Final = "/managed-services"
_CONTROL_PLANE_HINTS: Final[dict[str, str]] = {
    e.QueueNotFoundError.__name__: "GET /managed-services/{service}/queues lists the queues, and "
    "POST creates one.",
    e.QueueExistsError.__name__: "Use it, or remove it with DELETE "
    "/managed-services/{service}/queues/{queue}.",
    e.ServiceNotFoundError.__name__: "GET /managed-services lists the services.",
    e.ServiceExistsError.__name__: "Choose another name, or change it with PATCH "
    "/managed-services/{service}.",
    e.TaskNotFoundError.__name__: "Tasks are deleted a week after they have finished. "
    "GET /managed-services/{service}/tasks lists them.",
    # A payload of the control plane cannot be bytes.
    e.PayloadNotStorableError.__name__: "PostgreSQL cannot store it in JSON. Remove it.",
}
_FIELDS: Final = {
    "queue": "topic",
    "to_queue": "to_topic",
    "headers": "metadata",
    "group_key": "group",
    "delay": "delay_seconds",
    "ttl": "ttl_seconds",
    "max_attempts": "max_retries",
    "lease_seconds": "visibility_timeout_seconds",
    "unique_while": "unique",
    "older_than": "older_than_seconds",
    "payload_bytes": "payload",
}
_WORDS: Final = {**_FIELDS, "queues": "topics"}
_WORD: Final = re.compile(r"(?<![\w.'])(" + "|".join(_WORDS) + r")(?![\w']|\.\w)")
_QUOTED: Final = re.compile(r"""('(?:[^']|'')*'|"[^"]*"|`[^`]*`)""")


def in_words_of(route: str, problem: Problem) -> Problem:
    """The same problem with the names that the callers of the route have for things."""
    if route.startswith(_CONTROL_PLANE):
        problem.hint = _CONTROL_PLANE_HINTS.get(problem.code, problem.hint)
    elif route.startswith("/api/") and route != "/api/verbs":
        return _in_words_of_data_plane(problem)
    return problem


def _in_words_of_data_plane(problem: Problem) -> Problem:
    problem.detail = _translated(problem.detail)
    problem.hint = _HINTS.get(problem.code) or (problem.hint and _translated(problem.hint))
    problem.allowed = problem.allowed and _translated(problem.allowed)
    # The caller's own names stand in errors about the form of a request.
    if problem.field is not None and not problem.code.startswith("Malformed"):
        problem.field = _FIELDS.get(problem.field, problem.field)
    problem.fields = {_FIELDS.get(name, name): value for name, value in problem.fields.items()}
    return problem


def _translated(text: str) -> str:
    """The text with other words, but with the names and values that it quotes."""
    parts = _QUOTED.split(text)
    parts[::2] = [_WORD.sub(lambda found: _WORDS[found[1]], part) for part in parts[::2]]
    return "".join(parts)
