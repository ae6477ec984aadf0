"""The client for TypeScript with the verbs of `penstock.Client`, for the contract suite.

A process of Node.js runs the client. Calls and results are lines of JSON.
"""

from __future__ import annotations

import base64
import json
import math
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final

from penstock import NewMessage
from penstock.errors import PenstockError, QueueExistsError, ScheduleExistsError
from penstock.http_client.responses import lease_of, problem
from penstock.model.message import Attempt, Enqueued, Lease, Message
from penstock.model.queue import Backoff, Queue, QueueSettings, QueueStats
from penstock.model.schedule import Fired, Schedule
from penstock.server.api.rendering import STATUS

DRIVER: Final = Path(__file__).with_name("typescript_driver.mjs")
# Small pages, so that a list takes more than one.
PAGE: Final = 3
# The names of the data plane.
NAMES: Final = {
    "queue": "topic",
    "payload": "json",
    "headers": "metadata",
    "max_attempts": "max_retries",
    "lease_seconds": "visibility_timeout_seconds",
    "delay": "delay_seconds",
    "ttl": "ttl_seconds",
    "older_than": "older_than_seconds",
}
FIELDS: Final = {http: python for python, http in NAMES.items()}
# Errors of the data plane that the clients for Python report under another name.
CODES: Final = {
    "NotFinished": "NotReplayableError",
    "MalformedBody": "InvalidValueError",
    "MalformedQuery": "InvalidValueError",
}
# The same for errors of a field.
CODES_OF_FIELDS: Final = {"queue": "InvalidQueueNameError", "headers": "PayloadNotStorableError"}


class TypeScriptClient:
    """Sends each verb to the client for TypeScript, in the names of the data plane."""

    def __init__(self, url: str, key: str) -> None:
        self._process = subprocess.Popen(
            ["node", str(DRIVER), url, key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()

    def _send(self, method: str, *args: Any, take: int | None = None) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"method": method, "args": _packed(args), "take": take}))
        process.stdin.write("\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        if "error" in answer:
            raise _error(answer["error"])
        return answer["result"]

    def _call(self, operation: str, **parts: Any) -> Any:
        """An operation that has no method in the client."""
        return self._send("call", operation, parts)

    def enqueue(self, queue: str, payload: Any, **options: Any) -> int:
        fields = _fields(options)
        if isinstance(payload, bytes | bytearray | memoryview):
            return int(self._send("enqueueBytes", queue, bytes(payload), fields))
        return int(self._send("enqueue", queue, payload, fields))

    def enqueue_many(
        self, queue: str, messages: Iterable[Any], *, chunk_size: int = 1000, **options: Any
    ) -> Enqueued:
        ids = self._send("enqueueMany", queue, [_new(each) for each in messages], options)
        return Enqueued(len(ids), int(ids[0]), int(ids[-1])) if ids else Enqueued(0, None, None)

    def claim(self, queue: str, count: int = 1, **options: Any) -> list[Lease]:
        return [
            lease_of(each)
            for each in self._send("dequeue", queue, _fields({"count": count, **options}))
        ]

    def ack(self, lease: Any) -> None:
        self._send("ack", _lease(lease))

    def nack(self, lease: Any, error: Any = None, delay: Any = None) -> str:
        options = {"error": _note(error), "delay_seconds": _seconds(delay)}
        return str(self._send("nack", _lease(lease), options)["state"])

    def reject(self, lease: Any, reason: Any = None) -> str:
        return str(self._send("reject", _lease(lease), _note(reason))["state"])

    def snooze(self, lease: Any, delay: Any = 0) -> str:
        return str(self._send("snooze", _lease(lease), _seconds(delay))["state"])

    def extend(self, lease: Any, seconds: Any = None) -> datetime:
        return _time(self._send("extend", _lease(lease), _seconds(seconds)))

    def ack_many(self, leases: Sequence[Any]) -> set[int]:
        return set(self._settle("ack", leases))

    def nack_many(self, leases: Sequence[Any], error: Any = None, delay: Any = None) -> Any:
        return self._settle("nack", leases, error=error, delay_seconds=delay)

    def reject_many(self, leases: Sequence[Any], reason: Any = None) -> Any:
        return self._settle("reject", leases, error=reason)

    def snooze_many(self, leases: Sequence[Any], delay: Any = 0) -> Any:
        return self._settle("snooze", leases, delay_seconds=delay)

    def extend_many(self, leases: Sequence[Any], seconds: Any = None) -> dict[int, datetime]:
        found = self._settle(
            "extend", leases, shown="visibility_timeout", visibility_timeout_seconds=seconds
        )
        return {id: _time(until) for id, until in found.items()}

    def _settle(
        self, action: str, leases: Sequence[Any], *, shown: str = "state", **fields: Any
    ) -> dict[int, Any]:
        """The new state by id. A list in `fields` has one value for each lease."""
        messages = [{**_lease(lease), "action": action} for lease in leases]
        for name, given in fields.items():
            each = given if isinstance(given, list) else [given] * len(messages)
            for message, value in zip(messages, each, strict=True):
                message[name] = _seconds(value) if name.endswith("seconds") else _note(value)
        results = self._send("settle", messages)
        return {int(each["id"]): each[shown] for each in results if each["settled"]}

    def cancel(self, id: int) -> str:
        before = self.message(id).state
        self._call("cancel_message", path={"id": str(id)})
        return before

    def redrive(self, queue: str, **chosen: Any) -> int:
        fields = {NAMES.get(name, name): _field(name, value) for name, value in chosen.items()}
        return int(self._send("redrive", queue, fields))

    def replay(self, id: int, queue: str | None = None) -> int:
        return int(self._send("replay", str(id), queue))

    def message(self, id: int) -> Message:
        return _message(self._send("message", str(id)))

    def messages(
        self,
        queue: str | None = None,
        state: str | None = None,
        *,
        key: str | None = None,
        error_like: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[Message]:
        """The data plane lists by status, and finds text in errors without a pattern."""
        query = {
            "status": "pending" if state == "dead" else state and STATUS[state],
            "key": key,
            "error": error_like and error_like.strip("%"),
            "cursor": None if after is None else str(after),
            "limit": PAGE,
        }
        # Dead letters are in a topic of their own.
        topics = [queue] if queue is None or queue.endswith(".dlq") else [queue, f"{queue}.dlq"]
        pages = [self._send("messages", {**query, "topic": topic}, take=1000) for topic in topics]
        found = sorted(map(_message, chain(*pages)), key=lambda message: message.id)
        if state is None:
            # The clients for Python list the messages that are not finished.
            return [each for each in found if each.finished_at is None][:limit]
        return [each for each in found if each.state == state][:limit]

    def create_queue(
        self,
        name: str,
        settings: QueueSettings | None = None,
        *,
        exist_ok: bool = False,
        **changes: Any,
    ) -> bool:
        try:
            self._configure("createTopic", name, settings, changes)
        except QueueExistsError:
            if not exist_ok:
                raise
            return False
        return True

    def set_queue(self, name: str, settings: QueueSettings | None = None, **changes: Any) -> None:
        self._configure("setTopic", name, settings, changes)

    def _configure(
        self, method: str, name: str, settings: QueueSettings | None, changes: Mapping[str, Any]
    ) -> None:
        """A topic is paused by a call, not by a setting."""
        config = _fields({**(settings.as_dict() if settings else {}), **changes}, given=True)
        paused = config.pop("paused") if isinstance(config.get("paused"), bool) else False
        if isinstance(config.get("backoff"), Backoff):
            config["backoff"] = asdict(config["backoff"])
        self._send(method, name, config)
        if paused:
            self.pause(name)

    def drop_queue(self, name: str, *, force: bool = False) -> int:
        return int(self._send("dropTopic", name, force))

    def pause(self, name: str) -> None:
        self._send("pause", name)

    def resume(self, name: str) -> None:
        self._send("resume", name)

    def purge(self, name: str, *, include_leased: bool = False) -> int:
        return int(self._send("purge", name, {"include_processing": include_leased}))

    def queues(self) -> list[Queue]:
        return [_queue(each) for each in self._send("topics")]

    def queue(self, name: str) -> Queue:
        return _queue(self._send("topic", name))

    def stats(self, name: str) -> QueueStats:
        found = self._send("stats", name)
        return QueueStats(
            queue=found["topic"],
            ready=found["pending"] - found["scheduled"],
            scheduled=found["scheduled"],
            leased=found["processing"],
            dead=found["dead"],
            oldest_ready_seconds=found["oldest_ready_seconds"],
            estimated=found["estimated"],
        )

    def maintain(self, *, full_pass: bool = False) -> dict[str, Any]:
        done: dict[str, Any] = self._call("run_maintenance", body={"full_pass": full_pass})["done"]
        return done

    def create_schedule(
        self,
        name: str,
        queue: str,
        cron: str,
        payload: Any = None,
        *,
        exist_ok: bool = False,
        **options: Any,
    ) -> bool:
        body = {"name": name, "topic": queue, "cron": cron, "json": payload}
        try:
            self._call("create_schedule", body={**body, **_options(options)})
        except ScheduleExistsError:
            if not exist_ok:
                raise
            return False
        return True

    def set_schedule(self, name: str, **changes: Any) -> None:
        self._call("change_schedule", path={"schedule": name}, body=_options(changes))

    def drop_schedule(self, name: str) -> None:
        self._call("delete_schedule", path={"schedule": name})

    def pause_schedule(self, name: str) -> None:
        self._call("pause_schedule", path={"schedule": name})

    def resume_schedule(self, name: str) -> None:
        self._call("resume_schedule", path={"schedule": name})

    def fire_schedule(self, name: str) -> int:
        return int(self._call("fire_schedule", path={"schedule": name})["id"])

    def fire_schedules(self) -> Fired:
        fired = self._call("fire_due_schedules")
        return Fired(fired["count"], _time(fired["next_fire_at"]), None)

    def schedules(self) -> list[Schedule]:
        return [_schedule(each) for each in self._call("list_schedules")["items"]]

    def schedule(self, name: str) -> Schedule:
        return _schedule(self._call("show_schedule", path={"schedule": name}))


def _packed(value: Any) -> Any:
    """The value as JSON that the driver can read."""
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")}
    if isinstance(value, Mapping):
        return {name: _packed(each) for name, each in value.items()}
    return [_packed(each) for each in value] if isinstance(value, list | tuple) else value


def _error(error: Mapping[str, Any]) -> Exception:
    """The error that the client over HTTP raises for the same problem."""
    if "crash" in error:
        return AssertionError(f"the client for TypeScript crashed: {error['crash']}")
    document = dict(error["problem"])
    document["code"] = CODES.get(document["code"], document["code"])
    if "field" in document:
        name = str(document["field"]).rpartition(".")[2]
        document["field"] = FIELDS.get(name, name)
        if document["code"] == "InvalidValueError":
            document["code"] = CODES_OF_FIELDS.get(document["field"], "InvalidValueError")
    found: PenstockError = problem(error["status"], document)
    return found


def _fields(options: Mapping[str, Any], *, given: bool = False) -> dict[str, Any]:
    """Options of a message or a queue. With `given`, None is the default of a setting."""
    return {
        NAMES.get(name, name): _field(name, value)
        for name, value in options.items()
        if given or value is not None
    }


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    return _fields(options, given=True)


def _field(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if name == "max_attempts" and isinstance(value, int):
        return value - 1
    if name == "ids":
        return [str(id) for id in value]
    if name in ("id_from", "id_to"):
        return str(value)
    return _seconds(value)


def _seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _note(error: Any) -> Any:
    if isinstance(error, BaseException):
        return f"{type(error).__name__}: {error}"
    return error


def _lease(lease: Any) -> dict[str, Any]:
    id, token = (lease.id, lease.token) if isinstance(lease, Lease) else lease
    return {"id": str(id), "lease_token": str(token)}


def _new(message: Any) -> dict[str, Any]:
    new = message if isinstance(message, NewMessage) else NewMessage(message)
    fields = _fields({name: value for name, value in asdict(new).items() if name != "payload"})
    if isinstance(new.payload, bytes):
        return {**fields, "payload": base64.b64encode(new.payload).decode()}
    return {**fields, "json": new.payload}


def _time(text: str | None) -> Any:
    return None if text is None else datetime.fromisoformat(text)


def _message(found: Mapping[str, Any]) -> Message:
    is_bytes = "payload" in found
    return Message(
        id=int(found["id"]),
        queue=found["topic"],
        state=found["state"],
        payload=base64.b64decode(found["payload"]) if is_bytes else found["json"],
        headers=found["metadata"],
        enqueued_at=_time(found["created_at"]),
        lease_until=_time(found["visibility_timeout"]),
        dead_at=_time(found["dlq_moved_at"]),
        original_queue=found["original_topic"],
        attempts=tuple(_attempt(found, each) for each in found.get("attempts", ())),
        **{
            name: found[name]
            for name in ("key", "priority", "group", "attempt", "max_attempts", "worker")
        },
        **{
            name: _time(found[name])
            for name in (
                *("visible_at", "expires_at", "first_claimed_at", "claimed_at", "finished_at"),
            )
        },
        last_error=found["last_error"],
    )


def _attempt(message: Mapping[str, Any], found: Mapping[str, Any]) -> Attempt:
    return Attempt(
        message_id=int(message["id"]),
        queue=message["topic"],
        attempt=found["attempt"],
        worker=found["worker"],
        started_at=_time(found["started_at"]),
        ended_at=_time(found["ended_at"]),
        error=found["error"],
    )


def _queue(found: Mapping[str, Any]) -> Queue:
    names = {name: NAMES.get(name, name) for name in QueueSettings.__dataclass_fields__}
    settings = {name: found[http] for name, http in names.items()}
    settings["max_attempts"] += 1
    settings["backoff"] = Backoff(**settings["backoff"])
    return Queue(
        found["topic"],
        QueueSettings(**settings),
        _time(found["created_at"]),
        _time(found["updated_at"]),
    )


def _schedule(found: Mapping[str, Any]) -> Schedule:
    fields = {name: found[NAMES.get(name, name)] for name in Schedule.__dataclass_fields__}
    for name in fields:
        if name.endswith("_at"):
            fields[name] = _time(fields[name])
    for name, change in (("max_attempts", lambda n: n + 1), ("last_message_id", int)):
        if fields[name] is not None:
            fields[name] = change(fields[name])
    return Schedule(**fields)
