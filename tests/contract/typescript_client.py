"""The client for TypeScript with the verbs of `penstock.Client`, for the contract suite.

A process of Node.js runs the client. Calls and results are lines of JSON.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tests.contract.typescript_documents import (
    changes_of,
    error_of,
    fields_of,
    lease_document,
    message_of,
    new_document,
    note_of,
    packed,
    queue_of,
    schedule_of,
    seconds_of,
    time_of,
)

from penstock.errors import QueueExistsError, ScheduleExistsError
from penstock.http_client.responses import lease_of
from penstock.model.message import Enqueued, Lease, Message
from penstock.model.queue import Backoff, Queue, QueueSettings, QueueStats
from penstock.model.schedule import Fired, Schedule
from penstock.server.api.rendering import STATUS

DRIVER: Final = Path(__file__).with_name("typescript_driver.mjs")
# Small pages, so that a list takes more than one.
PAGE: Final = 3


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
        process.stdin.write(json.dumps({"method": method, "args": packed(args), "take": take}))
        process.stdin.write("\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        if "error" in answer:
            raise error_of(answer["error"])
        return answer["result"]

    def _call(self, operation: str, **parts: Any) -> Any:
        """An operation that has no method in the client."""
        return self._send("call", operation, parts)

    def enqueue(self, queue: str, payload: Any, **options: Any) -> int:
        fields = fields_of(options)
        if isinstance(payload, bytes | bytearray | memoryview):
            return int(self._send("enqueueBytes", queue, bytes(payload), fields))
        return int(self._send("enqueue", queue, payload, fields))

    def enqueue_many(
        self, queue: str, messages: Iterable[Any], *, chunk_size: int = 1000, **options: Any
    ) -> Enqueued:
        ids = self._send("enqueueMany", queue, [new_document(each) for each in messages], options)
        return Enqueued(len(ids), int(ids[0]), int(ids[-1])) if ids else Enqueued(0, None, None)

    def claim(self, queue: str, count: int = 1, **options: Any) -> list[Lease]:
        return [
            lease_of(each)
            for each in self._send("dequeue", queue, fields_of({"count": count, **options}))
        ]

    def ack(self, lease: Any) -> None:
        self._send("ack", lease_document(lease))

    def nack(self, lease: Any, error: Any = None, delay: Any = None) -> str:
        options = {"error": note_of(error), "delay_seconds": seconds_of(delay)}
        return str(self._send("nack", lease_document(lease), options)["state"])

    def reject(self, lease: Any, reason: Any = None) -> str:
        return str(self._send("reject", lease_document(lease), note_of(reason))["state"])

    def snooze(self, lease: Any, delay: Any = 0) -> str:
        return str(self._send("snooze", lease_document(lease), seconds_of(delay))["state"])

    def extend(self, lease: Any, seconds: Any = None) -> datetime:
        return time_of(self._send("extend", lease_document(lease), seconds_of(seconds)))

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
        return {id: time_of(until) for id, until in found.items()}

    def _settle(
        self, action: str, leases: Sequence[Any], *, shown: str = "state", **fields: Any
    ) -> dict[int, Any]:
        """The new state by id. A list in `fields` has one value for each lease."""
        messages = [{**lease_document(lease), "action": action} for lease in leases]
        for name, given in fields.items():
            each = given if isinstance(given, list) else [given] * len(messages)
            for message, value in zip(messages, each, strict=True):
                message[name] = seconds_of(value) if name.endswith("seconds") else note_of(value)
        results = self._send("settle", messages)
        return {int(each["id"]): each[shown] for each in results if each["settled"]}

    def cancel(self, id: int) -> str:
        before = self.message(id).state
        self._call("cancel_message", path={"id": str(id)})
        return before

    def redrive(self, queue: str, **chosen: Any) -> int:
        return int(self._send("redrive", queue, fields_of(chosen)))

    def replay(self, id: int, queue: str | None = None) -> int:
        return int(self._send("replay", str(id), queue))

    def message(self, id: int) -> Message:
        return message_of(self._send("message", str(id)))

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
        # Dead letters are in a separate topic.
        topics = [queue] if queue is None or queue.endswith(".dlq") else [queue, f"{queue}.dlq"]
        pages = [self._send("messages", {**query, "topic": topic}, take=1000) for topic in topics]
        found = sorted(map(message_of, chain(*pages)), key=lambda message: message.id)
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
        config = fields_of({**(settings.as_dict() if settings else {}), **changes}, given=True)
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
        return [queue_of(each) for each in self._send("topics")]

    def queue(self, name: str) -> Queue:
        return queue_of(self._send("topic", name))

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
            self._call("create_schedule", body={**body, **changes_of(options)})
        except ScheduleExistsError:
            if not exist_ok:
                raise
            return False
        return True

    def set_schedule(self, name: str, **changes: Any) -> None:
        self._call("change_schedule", path={"schedule": name}, body=changes_of(changes))

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
        return Fired(fired["count"], time_of(fired["next_fire_at"]), None)

    def schedules(self) -> list[Schedule]:
        return [schedule_of(each) for each in self._call("list_schedules")["items"]]

    def schedule(self, name: str) -> Schedule:
        return schedule_of(self._call("show_schedule", path={"schedule": name}))
