"""What a call needs to find: a queue with messages in every state, made as far as it is asked for;
and an example of a call for every route and verb of the server."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from penstock import operations
from penstock.commands import read
from penstock.commands.command import Command
from penstock.commands.http_verbs import PROTOCOL, pack, verbs

FAR = 43_200


@dataclass(frozen=True)
class Example:
    """A call: its path filled in, and its JSON body, form or query."""

    path: str
    json: Any = None
    form: dict[str, Any] | None = None
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


OPEN_SESSIONS: list[psycopg.Connection[Any]] = []


@atexit.register
def _close_sessions() -> None:
    for forgotten in OPEN_SESSIONS:
        forgotten.close()


class Scene:
    """A queue with what a call may be about. Parts are made when they are first asked for."""

    def __init__(
        self, db: psycopg.Connection[Any], queue: str, ask: Callable[..., Any] | None = None
    ) -> None:
        self._db = db
        self._ask = ask
        self.queue = queue
        self._parts: dict[str, Any] = {}
        settings = '{"keep_history": 7}'
        self._value("select penstock.create_queue(%s, %s, true)", queue, settings)

    def _value(self, statement: str, *params: Any) -> Any:
        row = self._db.execute(statement, params).fetchone()
        assert row is not None
        return row[0]

    def _part(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._parts:
            self._parts[name] = make()
        return self._parts[name]

    def _enqueue(self, kind: str) -> int:
        payload = f'{{"of": "{self.queue}", "kind": "{kind}"}}'
        return int(self._value("select penstock.enqueue(%s, %s)", self.queue, payload))

    def _claim(self) -> tuple[int, int]:
        [row] = self._db.execute(
            "select id, token from penstock.claim(%s, 1, %s, %s)", [self.queue, FAR, "scene"]
        )
        return row[0], row[1]

    @property
    def ready(self) -> int:
        return int(self._part("ready", lambda: self._enqueue("ready")))

    def _leased(self) -> tuple[int, int]:
        self._enqueue("leased")
        # The queue is still paused if the server had to refuse the call that resumes it.
        self._value("select penstock.resume(%s)::text", self.queue)
        return self._claim()

    @property
    def lease(self) -> tuple[int, int]:
        found: tuple[int, int] = self._part("lease", self._leased)
        return found

    def _session(self) -> tuple[int, str]:
        """A session with an open transaction: its pid, and when the transaction began."""
        for forgotten in OPEN_SESSIONS:
            forgotten.close()
        parameters = self._db.info.get_parameters() | {
            "password": self._db.info.password,
            "application_name": "forgotten",
            # The transaction stays open even where a test sets a timeout of the database to 1 ms.
            "options": "-c idle_in_transaction_session_timeout=0 -c statement_timeout=0",
        }
        made = psycopg.connect(**parameters)
        OPEN_SESSIONS[:] = [made]
        made.execute("select pg_current_xact_id()")
        pid = made.info.backend_pid
        begun = "select extract(epoch from xact_start)::text from pg_stat_activity where pid = %s"
        return pid, str(self._value(begun, pid))

    @property
    def pid(self) -> int:
        return int(self._part("session", self._session)[0])

    @property
    def begun(self) -> str:
        return str(self._part("session", self._session)[1])

    @property
    def lease_body(self) -> dict[str, str]:
        return {"lease_token": str(self.lease[1])}

    def _dead(self) -> int:
        id, token = self._leased()
        self._value("select penstock.reject(%s, %s, 'broken')::text", id, token)
        return id

    @property
    def dead(self) -> int:
        return int(self._part("dead", self._dead))

    def _done(self) -> int:
        id, token = self._leased()
        self._value("select penstock.ack(%s, %s)::text", id, token)
        return id

    @property
    def done(self) -> int:
        return int(self._part("done", self._done))

    def _reporting(self) -> int:
        id = self.ready
        report = "select penstock.report_progress(array[%s], array[1], array[0.5], array['half'])"
        self._value(f"{report}::text", id)
        return id

    @property
    def reporting(self) -> int:
        """A message whose task has reported its progress."""
        return int(self._part("reporting", self._reporting))

    def _schedule(self) -> str:
        name = f"{self.queue}-schedule"
        self._value("select penstock.create_schedule(%s, %s, '@yearly')", name, self.queue)
        return name

    @property
    def schedule(self) -> str:
        return str(self._part("schedule", self._schedule))

    def _key(self) -> str:
        name = f"{self.queue}-key"
        self._value(
            "select penstock.create_key(%s, %s, 'sha256$', %s)::text",
            uuid4().hex[:12], name, [f"read:{self.queue}"],
        )  # fmt: skip
        return name

    @property
    def key(self) -> str:
        return str(self._part("key", self._key))

    def _worker(self) -> str:
        number = self._value("select nextval('penstock.position')")
        name = f"worker-{number}"
        report = {"takes_commands": True, "queues": {self.queue: {"running": 0}}}
        self._value("select penstock.beat_v2(%s, 'running', now(), %s)", name, Jsonb(report))
        return name

    @property
    def worker(self) -> str:
        return str(self._part("worker", self._worker))

    def _bulk_act(self) -> str:
        request = "select penstock.request_bulk_act('cancel', 'dead', %s, in_background => false)"
        return str(self._value(request, [self.queue]))

    @property
    def bulk_act(self) -> str:
        return str(self._part("bulk act", self._bulk_act))

    @property
    def batch(self) -> str:
        return str(self._part("batch", lambda: self._value("select penstock.create_batch()")))

    @property
    def purged(self) -> str:
        """The queue, after a purge that can be undone, or without one if it was dropped."""
        if self._exists():
            self._enqueue("purged")
            self._value("select penstock.purge(%s)", self.queue)
        return self.queue

    @property
    def purged_dead(self) -> str:
        if self._exists():
            self._dead()
            self._value("select penstock.purge(%s)", f"{self.queue}.dlq")
        return self.queue

    def _exists(self) -> bool:
        query = "select exists (select from penstock.queues where name = %s)"
        return bool(self._value(query, self.queue))

    def _service(self) -> str:
        name = self.queue.replace(".", "-")
        dsn = "postgresql://u:p@127.0.0.1:1/x"
        self._value("select penstock.add_service(%s, %s)::text", name, dsn)
        return name

    @property
    def service(self) -> str:
        return str(self._part("service", self._service))

    @property
    def address(self) -> str:
        """An address that answers: the page of a service tests a new one before it stores it."""
        info = self._db.info
        return f"host={info.host} port={info.port} user={info.user} dbname={info.dbname}"

    def task(self, kind: str) -> str:
        """A task of the control plane, asked for by an admin."""
        if self._ask is None:
            return "00000000-0000-0000-0000-000000000000"
        body = {"messages": [{"payload": {}}]} if kind == "messages" else None
        return str(self._ask(f"/managed-services/local/queues/{self.queue}/{kind}", body))

    def _old_task(self, status: str, waiting: bool) -> str:
        """A task of this queue that no server carries out."""
        queue = self._value(
            "insert into penstock.service_queue (service_id, name, database_name, status,"
            " visibility_timeout_seconds, max_attempts, dlq_enabled)"
            " select id, %s, 'x', 'Active', 30, 5, true from penstock.service where name = 'local'"
            " on conflict (service_id, name) where deleted_at is null"
            " do update set dlq_enabled = true returning id::text",
            self.queue,
        )
        return str(
            self._value(
                "insert into penstock.service_task (kind, queue_id, status, waiting_since)"
                " values ('stats', %s::uuid, %s, case when %s then now() end) returning id::text",
                *(queue, status, waiting),
            )
        )

    def _subscription(self) -> str:
        name = f"{self.queue}-subscription"
        # A queue has at most one, and an example may have created it.
        self._value(
            "select count(penstock.drop_subscription(name)) from penstock.subscription"
            " where queue = %s",
            self.queue,
        )
        self._value(
            "select penstock.create_subscription(%s, %s, 'https://example.com/x',"
            " '{\"enabled\": false}')::text",
            name,
            self.queue,
        )
        return name

    @property
    def subscription(self) -> str:
        return str(self._part("subscription", self._subscription))

    @property
    def waiting_task(self) -> str:
        return self._old_task("pending", True)

    @property
    def failed_task(self) -> str:
        return self._old_task("failed", False)

    @property
    def failed_queue(self) -> str:
        """This queue, after its creation on the service failed."""
        self._old_task("failed", False)
        self._value(
            "update penstock.service_queue set status = 'Failed', error_message = 'x'"
            " where name = %s and deleted_at is null returning name",
            self.queue,
        )
        return self.queue

    def everything(self) -> Scene:
        """Make all parts, so that there is something to change."""
        _ = self.ready, self.lease, self.dead, self.done, self.schedule, self.service, self.key
        _ = self.worker, self.bulk_act, self.batch, self.subscription
        return self


Build = Callable[[Scene], Example]


def _filled(path: str, s: Scene) -> Example:
    """A path with the queue in it, and nothing else to say."""
    return Example(path.format(topic=s.queue, queue=s.queue, name=s.queue, service="local"))


def _lease(verb: str) -> Build:
    return lambda s: Example(f"/api/messages/{s.lease[0]}/{verb}", s.lease_body)


def _schedule(rest: str = "", **body: Any) -> Build:
    return lambda s: Example(f"/api/schedules/{s.schedule}{rest}", body or None)


def _subscription(rest: str = "", **body: Any) -> Build:
    return lambda s: Example(f"/api/subscriptions/{s.subscription}{rest}", body or None)


_PARTS = (
    *("queue", "ready", "dead", "done", "schedule", "worker", "bulk_act", "purged", "purged_dead"),
    *("key", "batch", "pid", "begun", "service", "address", "subscription", "failed_queue"),
    *("failed_task", "waiting_task"),
)


def _form(path: str, **fields: Any) -> Build:
    """A form of a page; `{...}` in the path and in fields is a part of the scene."""

    def fill(text: Any, s: Scene) -> Any:
        if not isinstance(text, str):
            return text
        for name in _PARTS:
            if f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", str(getattr(s, name)))
        return text

    return lambda s: Example(
        fill(path, s), form={name: fill(value, s) for name, value in fields.items()}
    )


_QUEUES = "/managed-services/local/queues"
# Routes whose path says it all have no separate example: see `example_of`.
ROUTES: dict[str, Build] = {
    "POST /api/messages": lambda s: Example("/api/messages", {"topic": s.queue, "json": 1}),
    "POST /api/messages/dequeue": lambda s: Example("/api/messages/dequeue", {"topic": s.queue}),
    "POST /api/messages/settle": lambda s: Example(
        "/api/messages/settle", {"messages": [{"id": str(s.lease[0]), **s.lease_body}]}
    ),
    "POST /api/messages/{id}/ack": _lease("ack"),
    "POST /api/messages/{id}/nack": _lease("nack"),
    "POST /api/messages/{id}/reject": _lease("reject"),
    "POST /api/messages/{id}/snooze": _lease("snooze"),
    "POST /api/messages/{id}/extend": _lease("extend"),
    "GET /api/messages/{id}": lambda s: Example(f"/api/messages/{s.ready}"),
    "POST /api/messages/{id}/requeue": lambda s: Example(f"/api/messages/{s.dead}/requeue"),
    "POST /api/messages/{id}/replay": lambda s: Example(f"/api/messages/{s.done}/replay", {}),
    "POST /api/messages/{id}/cancel": lambda s: Example(f"/api/messages/{s.ready}/cancel"),
    "POST /api/topic-configs": lambda s: Example("/api/topic-configs", {"topic": f"{s.queue}-new"}),
    "PUT /api/topic-configs/{topic}": lambda s: Example(f"/api/topic-configs/{s.queue}", {}),
    "PATCH /api/topic-configs/{topic}": lambda s: Example(
        f"/api/topic-configs/{s.queue}", {"max_retries": 3}
    ),
    "DELETE /api/topics/{topic}": lambda s: Example(
        f"/api/topics/{s.queue}", query={"force": "true"}
    ),
    "POST /api/topics/{topic}/redrive": lambda s: Example(f"/api/topics/{s.queue}/redrive", {}),
    "POST /api/schedules": lambda s: Example(
        "/api/schedules", {"name": f"{s.queue}-new", "topic": s.queue, "cron": "@yearly"}
    ),
    "GET /api/schedules/{schedule}": _schedule(),
    "PATCH /api/schedules/{schedule}": _schedule(cron="@monthly"),
    "DELETE /api/schedules/{schedule}": _schedule(),
    "POST /api/schedules/{schedule}/pause": _schedule("/pause"),
    "POST /api/schedules/{schedule}/resume": _schedule("/resume"),
    "POST /api/schedules/{schedule}/fire": _schedule("/fire"),
    "POST /api/messages/cancel": lambda s: Example("/api/messages/cancel", {"ids": [str(s.ready)]}),
    "POST /api/messages/move": lambda s: Example(
        "/api/messages/move", {"ids": [str(s.ready)], "topic": s.queue}
    ),
    "POST /api/messages/set-priority": lambda s: Example(
        "/api/messages/set-priority", {"ids": [str(s.ready)], "priority": 3}
    ),
    "GET /api/messages/{id}/result": lambda s: Example(f"/api/messages/{s.done}/result"),
    "GET /api/messages/{id}/progress": lambda s: Example(f"/api/messages/{s.reporting}/progress"),
    "GET /api/messages/stream": lambda s: Example(
        "/api/messages/stream", query={"topic": s.queue, "duration_seconds": 0}
    ),
    "GET /api/cron/next": lambda s: Example("/api/cron/next", query={"cron": "@daily"}),
    "GET /api/batches/{id}": lambda s: Example(f"/api/batches/{s.batch}"),
    "POST /api/batches/{id}/cancel": lambda s: Example(f"/api/batches/{s.batch}/cancel"),
    "POST /api/admin/maintain": lambda s: Example("/api/admin/maintain", {}),
    "POST /api/subscriptions": lambda s: Example(
        "/api/subscriptions",
        {"name": f"{s.queue}-new", "topic": s.queue, "url": "https://example.com/hook"},
    ),
    "GET /api/subscriptions/{subscription}": _subscription(),
    "PATCH /api/subscriptions/{subscription}": _subscription(concurrency=2),
    "DELETE /api/subscriptions/{subscription}": _subscription(),
    "GET /api/subscriptions/{subscription}/secret": _subscription("/secret"),
    "POST /api/topics/{topic}/undo-purge": lambda s: Example(f"/api/topics/{s.purged}/undo-purge"),
    "POST /api/bulk-acts": lambda s: Example(
        "/api/bulk-acts", {"act": "cancel", "state": "ready", "topics": [s.queue]}
    ),
    "GET /api/bulk-acts/{id}": lambda s: Example(f"/api/bulk-acts/{s.bulk_act}"),
    "POST /api/bulk-acts/{id}/stop": lambda s: Example(f"/api/bulk-acts/{s.bulk_act}/stop"),
    "POST /api/workers/command": lambda s: Example(
        "/api/workers/command", {"worker": s.worker, "command": "quiet"}
    ),
    "PUT /api/admin/delete-reaper/schedule": lambda s: Example(
        "/api/admin/delete-reaper/schedule", {"schedule": "@yearly"}
    ),
    "POST /api/verbs": lambda s: verb_example(read.schema_version()),
    "POST /managed-services": lambda s: Example(
        "/managed-services",
        {"name": f"{s.queue}-new".replace(".", "-"), "dsn": "postgresql://u:p@localhost:1/x"},
    ),
    "PATCH /managed-services/{service}": lambda s: Example(
        f"/managed-services/{s.service}", {"password": "other", "check": False}
    ),
    "DELETE /managed-services/{service}": lambda s: Example(f"/managed-services/{s.service}"),
    "GET /managed-services/{service}/tasks/{task}": lambda s: Example(
        f"/managed-services/local/tasks/{s.task('stats')}"
    ),
    "POST /managed-services/{service}/tasks/{task}/cancel": lambda s: Example(
        f"/managed-services/local/tasks/{s.waiting_task}/cancel"
    ),
    "POST /managed-services/{service}/tasks/{task}/retry": lambda s: Example(
        f"/managed-services/local/tasks/{s.failed_task}/retry"
    ),
    "POST /managed-services/{service}/queues/{queue}/retry": lambda s: Example(
        f"{_QUEUES}/{s.failed_queue}/retry"
    ),
    "POST /managed-services/{service}/queues": lambda s: Example(
        _QUEUES, {"name": f"{s.queue}-new"}
    ),
    "POST /managed-services/{service}/queues/{queue}/messages": lambda s: Example(
        f"{_QUEUES}/{s.queue}/messages", {"messages": [{"payload": {}}]}
    ),
    "GET /managed-services/{service}/queues/{queue}/messages": lambda s: Example(
        f"{_QUEUES}/{s.queue}/messages", query={"task_id": s.task("messages")}
    ),
    "GET /managed-services/{service}/queues/{queue}/stats": lambda s: Example(
        f"{_QUEUES}/{s.queue}/stats", query={"task_id": s.task("stats")}
    ),
    "POST /api/keys": lambda s: Example(
        "/api/keys", {"name": f"{s.queue}-new", "scopes": [f"read:{s.queue}"]}
    ),
    "GET /api/keys/{key}": lambda s: Example(f"/api/keys/{s.key}"),
    "PATCH /api/keys/{key}": lambda s: Example(
        f"/api/keys/{s.key}", {"scopes": [f"read:{s.queue}"]}
    ),
    "DELETE /api/keys/{key}": lambda s: Example(f"/api/keys/{s.key}"),
    "GET /services/{service}": lambda s: Example("/services/local"),
    "GET /services/{service}.json": lambda s: Example("/services/local.json"),
    "GET /batches/{id}": lambda s: Example(f"/batches/{s.batch}"),
    "GET /batches/{id}.json": lambda s: Example(f"/batches/{s.batch}.json"),
    "GET /find": lambda s: Example("/find", query={"q": "ord"}),
    "GET /find.json": lambda s: Example("/find.json", query={"q": "ord"}),
    "GET /messages/{id}": lambda s: Example(f"/messages/{s.ready}"),
    "GET /messages/{id}.json": lambda s: Example(f"/messages/{s.ready}.json"),
    "POST /login": lambda s: Example("/login", form={"key": "psk_unknown"}),
    "POST /time-zone": lambda s: Example("/time-zone", form={"zone": "Europe/Berlin"}),
    "POST /theme": lambda s: Example("/theme", form={"theme": "dark"}),
    "GET /static/{mark}/{name}": lambda s: Example("/static/x/app.css"),
}
ACTS: dict[str, Build] = {
    "/queues/create": _form("/queues/create", queue="{queue}-new"),
    "/queues/{name}/settings": _form("/queues/{queue}/settings", max_attempts="7"),
    "/queues/{name}/pause": _form("/queues/{queue}/pause"),
    "/queues/{name}/resume": _form("/queues/{queue}/resume"),
    "/queues/{name}/purge": _form("/queues/{queue}/purge", confirm="{queue}"),
    "/queues/{name}/purge-dead": _form("/queues/{queue}/purge-dead", confirm="{queue}"),
    "/queues/{name}/undo-purge": _form("/queues/{purged}/undo-purge"),
    "/queues/{name}/undo-purge-dead": _form("/queues/{purged_dead}/undo-purge-dead"),
    "/queues/{name}/redrive": _form("/queues/{queue}/redrive"),
    "/queues/{name}/drop": _form("/queues/{queue}/drop", confirm="{queue}"),
    "/messages/bulk": _form("/messages/bulk", act="cancel", state="ready", queue="{queue}"),
    "/bulk-acts/{id}/stop": _form("/bulk-acts/{bulk_act}/stop"),
    "/messages/cancel": _form("/messages/cancel", id="{ready}"),
    "/messages/{id}/cancel": _form("/messages/{ready}/cancel"),
    "/messages/{id}/requeue": _form("/messages/{dead}/requeue"),
    "/messages/{id}/replay": _form("/messages/{done}/replay", queue="{queue}"),
    "/messages/{id}/copy": _form(
        "/messages/{ready}/copy", queue="{queue}", payload="1", headers="{}", key="edited"
    ),
    "/schedules/create": _form(
        "/schedules/create", name="{queue}-new", queue="{queue}", cron="@yearly"
    ),
    "/schedules/{name}/edit": _form("/schedules/{schedule}/edit", queue="{queue}", cron="@monthly"),
    "/schedules/{name}/pause": _form("/schedules/{schedule}/pause"),
    "/schedules/{name}/resume": _form("/schedules/{schedule}/resume"),
    "/schedules/{name}/fire": _form("/schedules/{schedule}/fire"),
    "/schedules/{name}/drop": _form("/schedules/{schedule}/drop"),
    "/services/add": _form("/services/add", name="{queue}-new", dsn="host=127.0.0.1 user=u port=1"),
    "/services/{service}/change": _form("/services/{service}/change", dsn="{address}"),
    "/services/{service}/remove": _form("/services/{service}/remove"),
    "/services/{service}/queues/{queue}/retry": _form(
        "/services/local/queues/{failed_queue}/retry"
    ),
    "/services/{service}/queues/{queue}/forget": _form(
        "/services/local/queues/{failed_queue}/forget"
    ),
    "/services/{service}/tasks/{task}/cancel": _form("/services/local/tasks/{waiting_task}/cancel"),
    "/services/{service}/tasks/{task}/retry": _form("/services/local/tasks/{failed_task}/retry"),
    "/subscriptions/create": _form(
        "/subscriptions/create", name="{queue}-new", queue="{queue}", url="https://example.com/x"
    ),
    "/subscriptions/{subscription}/pause": _form("/subscriptions/{subscription}/pause"),
    "/subscriptions/{subscription}/resume": _form("/subscriptions/{subscription}/resume"),
    "/subscriptions/{subscription}/change": _form(
        "/subscriptions/{subscription}/change", concurrency="3"
    ),
    "/subscriptions/{subscription}/replace-secret": _form(
        "/subscriptions/{subscription}/replace-secret"
    ),
    "/subscriptions/{subscription}/drop": _form("/subscriptions/{subscription}/drop"),
    "/keys/create": _form("/keys/create", name="{queue}-new", scopes="read:{queue}"),
    "/keys/{key}/edit": _form("/keys/{key}/edit", scopes="read:{queue}"),
    "/keys/{key}/revoke": _form("/keys/{key}/revoke"),
    "/findings/acknowledge": _form(
        "/findings/acknowledge", kind="full", severity="note", subject="{queue}", reason="known"
    ),
    "/findings/mute": _form(
        "/findings/mute", kind="full", severity="note", subject="{queue}", reason="known"
    ),
    "/findings/clear": _form("/findings/clear", kind="full", subject="{queue}"),
    "/workers/quiet": _form("/workers/quiet", worker="{worker}"),
    "/workers/resume": _form("/workers/resume", worker="{worker}"),
    "/workers/stop": _form("/workers/stop", worker="{worker}"),
    "/batches/{id}/cancel": _form("/batches/{batch}/cancel"),
    "/system/end-session": _form("/system/end-session", pid="{pid}", begun="{begun}"),
    "/system/maintain": _form("/system/maintain"),
    "/system/expiry-reaper": _form("/system/expiry-reaper"),
    "/system/delete-reaper": _form("/system/delete-reaper"),
}
VERBS: dict[str, Callable[[Scene], Command[Any]]] = {
    "enqueue": lambda s: operations.enqueue(s.queue, 1),
    "enqueue_many": lambda s: operations.enqueue_many(s.queue, [1]),
    "claim": lambda s: operations.claim(s.queue),
    "ack": lambda s: operations.ack(s.lease),
    "ack_many": lambda s: operations.ack_many([s.lease]),
    "nack": lambda s: operations.nack(s.lease),
    "nack_many": lambda s: operations.nack_many([s.lease]),
    "reject": lambda s: operations.reject(s.lease),
    "reject_many": lambda s: operations.reject_many([s.lease]),
    "snooze": lambda s: operations.snooze(s.lease),
    "snooze_many": lambda s: operations.snooze_many([s.lease]),
    "extend": lambda s: operations.extend(s.lease),
    "extend_many": lambda s: operations.extend_many([s.lease]),
    "cancel": lambda s: operations.cancel(s.ready),
    "redrive": lambda s: operations.redrive(s.queue),
    "replay": lambda s: operations.replay(s.done),
    "move": lambda s: operations.move([s.ready], s.queue),
    "set_priority": lambda s: operations.set_priority([s.ready], 3),
    "undo_purge": lambda s: operations.undo_purge(s.purged),
    "create_queue": lambda s: operations.create_queue(f"{s.queue}-new"),
    "set_queue": lambda s: operations.set_queue(s.queue, changes={"max_attempts": 7}),
    "drop_queue": lambda s: operations.drop_queue(s.queue, force=True),
    "pause": lambda s: operations.pause(s.queue),
    "resume": lambda s: operations.resume(s.queue),
    "purge": lambda s: operations.purge(s.queue),
    "maintain": lambda s: operations.maintain(),
    "command_worker": lambda s: operations.command_worker(s.worker, "quiet"),
    "create_schedule": lambda s: operations.create_schedule(f"{s.queue}-new", s.queue, "@yearly"),
    "set_schedule": lambda s: operations.set_schedule(s.schedule, {"cron": "@monthly"}),
    "drop_schedule": lambda s: operations.drop_schedule(s.schedule),
    "pause_schedule": lambda s: operations.pause_schedule(s.schedule),
    "resume_schedule": lambda s: operations.resume_schedule(s.schedule),
    "fire_schedule": lambda s: operations.fire_schedule(s.schedule),
    "fire_schedules": lambda s: operations.fire_schedules(),
    "next_fires": lambda s: operations.next_fires("@daily"),
    "queues": lambda s: read.queues(),
    "stats": lambda s: read.stats(s.queue),
    "message": lambda s: read.message(s.ready),
    "messages": lambda s: read.messages(s.queue),
    "history": lambda s: read.messages(s.queue, "done"),
    "workers": lambda s: read.workers(),
    "schedules": lambda s: read.schedules(),
    "schedule_page": lambda s: read.schedule_page(),
    "schema_version": lambda s: read.schema_version(),
}


def verb_example(command: Command[Any]) -> Example:
    """A call of `/api/verbs`, as `penstock.http` would send it."""
    verb = next(each for each in verbs().values() if each.sql == command.sql)
    arguments = {name: pack(command.params[name]) for name in verb.types}
    body = {"calls": [{"verb": verb.name, "arguments": arguments}]}
    return Example("/api/verbs", body, headers={"Penstock-Protocol": PROTOCOL})


def example_of(route: str, scene: Scene) -> Example:
    """An example of a route, such as `POST /api/messages`, or of a verb, such as `VERB claim`."""
    method, _, path = route.partition(" ")
    if method == "VERB":
        return verb_example(VERBS[path](scene))
    if path.removesuffix(".json") in ACTS:
        made = ACTS[path.removesuffix(".json")](scene)
        if method == "POST":
            return made
        suffix = ".json" if path.endswith(".json") else ""
        return Example(made.path + suffix, query=made.form or {})
    if route in ROUTES:
        return ROUTES[route](scene)
    return _filled(path, scene)
