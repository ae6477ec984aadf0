"""The scopes that every route, page and verb needs.

The server checks a need before the handler runs, as far as the request shows it without being
read: the scope, a queue in the path, and the right to all queues. The handler checks the rest,
which the target names. A route or verb that is not declared here keeps the server from starting,
and `tests/server/test_scopes_matrix.py` calls each of them with keys that fit and keys that do not.

| target | which queues the key must cover |
|---|---|
| `path` | the queue that the path names |
| `body` | the queues that the body, the query or the arguments name |
| `message` | the queue of the message, and the one that a copy goes to |
| `lease` | the queue of the message; a key for all queues shows the lease alone |
| `schedule` | the queue of the schedule, before and after the change |
| `subscription` | the queue of the subscription |
| `key` | the queues of the API key that is made, shown or revoked, with each of its scopes |
| `worker` | every queue that the worker serves |
| `bulk` | the queues of the bulk act, and the one that it puts messages into |
| `all` | all queues: the call names none |
| `own` | any: the answer holds only the caller's queues |
| `none` | any: the answer is about no queue |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from penstock.model.access import Scope
from penstock.server.auth.principal import Principal

Target = Literal[
    "path",
    "body",
    "message",
    "lease",
    "schedule",
    "subscription",
    "key",
    "worker",
    "bulk",
    "all",
    "own",
    "none",
]


@dataclass(frozen=True, slots=True)
class Need:
    """The scope, and the queues it must cover. `name` is the parameter or argument that counts.

    Without a scope any key is enough. `is_open` admits callers without a key. `also` is a second
    scope that the key must have, for the same queues.
    """

    scope: Scope | None
    target: Target = "none"
    name: str = ""
    is_open: bool = False
    also: Scope | None = None

    def admit(self, principal: Principal, path: Mapping[str, str]) -> None:
        """PermissionDeniedError if the key fails a check that does not need the body."""
        if self.also is not None:
            principal.require(self.also)
        if self.scope is None:
            return
        if self.target == "path":
            principal.require(self.scope, path[self.name])
        elif self.target == "all":
            principal.require_all(self.scope)
        else:
            principal.require(self.scope)


OPEN: Final = Need(None, is_open=True)
ANY_KEY: Final = Need(None)
_READ_OWN: Final = Need("read", "own")
_READ_MESSAGE: Final = Need("read", "message", "id")
_OPERATE_ALL: Final = Need("operate", "all")
_OPERATE_BODY: Final = Need("operate", "body")
_OPERATE_MESSAGE: Final = Need("operate", "message", "id")
_OPERATE_NAME: Final = Need("operate", "path", "name")
_OPERATE_SCHEDULE: Final = Need("operate", "schedule", "name")
_OPERATE_SUBSCRIPTION: Final = Need("operate", "subscription", "subscription")
_OPERATE_TOPIC: Final = Need("operate", "path", "topic")
_OPERATE_WORKER: Final = Need("operate", "worker", "worker")
_LEASE: Final = Need("consume", "lease", "id")
_LEASES: Final = Need("consume", "lease", "ids")
_KEY: Final = Need("admin", "key", "key")
_QUEUES: Final = "/managed-services/{service}/queues"

API: Final[Mapping[str, Need]] = {
    "POST /api/messages": Need("enqueue", "body"),
    "POST /api/messages/dequeue": Need("consume", "body"),
    "POST /api/messages/settle": _LEASES,
    "GET /api/messages/stream": Need("consume", "body", "topic"),
    "POST /api/messages/{id}/ack": _LEASE,
    "POST /api/messages/{id}/nack": _LEASE,
    "POST /api/messages/{id}/reject": _LEASE,
    "POST /api/messages/{id}/snooze": _LEASE,
    "POST /api/messages/{id}/extend": _LEASE,
    "GET /api/messages": _READ_OWN,
    "GET /api/messages/{id}": _READ_MESSAGE,
    "POST /api/messages/{id}/requeue": _OPERATE_MESSAGE,
    "POST /api/messages/{id}/replay": _OPERATE_MESSAGE,
    "POST /api/messages/{id}/cancel": _OPERATE_MESSAGE,
    "POST /api/messages/cancel": Need("operate", "message", "ids"),
    "POST /api/messages/move": Need("operate", "message", "ids"),
    "POST /api/messages/set-priority": Need("operate", "message", "ids"),
    "GET /api/messages/{id}/result": _READ_MESSAGE,
    "GET /api/messages/{id}/progress": _READ_MESSAGE,
    "GET /api/dead-letters/errors": _READ_OWN,
    "GET /api/topic-configs": _READ_OWN,
    "POST /api/topic-configs": _OPERATE_BODY,
    "GET /api/topic-configs/{topic}": Need("read", "path", "topic"),
    "PUT /api/topic-configs/{topic}": _OPERATE_TOPIC,
    "PATCH /api/topic-configs/{topic}": _OPERATE_TOPIC,
    "DELETE /api/topic-configs/{topic}": _OPERATE_TOPIC,
    "DELETE /api/topics/{topic}": _OPERATE_TOPIC,
    "POST /api/topics/{topic}/pause": _OPERATE_TOPIC,
    "POST /api/topics/{topic}/resume": _OPERATE_TOPIC,
    "POST /api/topics/{topic}/purge": _OPERATE_TOPIC,
    "POST /api/topics/{topic}/undo-purge": _OPERATE_TOPIC,
    "POST /api/topics/{topic}/redrive": _OPERATE_TOPIC,
    "GET /api/stats": _READ_OWN,
    "GET /api/schedules": _READ_OWN,
    "POST /api/schedules": _OPERATE_BODY,
    "GET /api/schedules/{schedule}": Need("read", "schedule", "schedule"),
    "PATCH /api/schedules/{schedule}": Need("operate", "schedule", "schedule"),
    "DELETE /api/schedules/{schedule}": Need("operate", "schedule", "schedule"),
    "POST /api/schedules/{schedule}/pause": Need("operate", "schedule", "schedule"),
    "POST /api/schedules/{schedule}/resume": Need("operate", "schedule", "schedule"),
    "POST /api/schedules/{schedule}/fire": Need("operate", "schedule", "schedule"),
    "GET /api/cron/next": Need("read", "none"),
    # The members of a batch may be in any queues.
    "GET /api/batches": Need("read", "all"),
    "GET /api/batches/{id}": Need("read", "all"),
    "POST /api/batches/{id}/cancel": _OPERATE_ALL,
    "GET /api/subscriptions": _READ_OWN,
    "POST /api/subscriptions": _OPERATE_BODY,
    "GET /api/subscriptions/{subscription}": Need("read", "subscription", "subscription"),
    "PATCH /api/subscriptions/{subscription}": _OPERATE_SUBSCRIPTION,
    "DELETE /api/subscriptions/{subscription}": _OPERATE_SUBSCRIPTION,
    "GET /api/subscriptions/{subscription}/secret": _OPERATE_SUBSCRIPTION,
    "POST /api/bulk-acts": _OPERATE_BODY,
    "GET /api/bulk-acts/{id}": Need("operate", "bulk", "id"),
    "POST /api/bulk-acts/{id}/stop": Need("operate", "bulk", "id"),
    "GET /api/workers": _READ_OWN,
    "POST /api/workers/command": _OPERATE_WORKER,
    "POST /api/admin/expiry-reaper/run": _OPERATE_ALL,
    "POST /api/admin/delete-reaper/run": _OPERATE_ALL,
    "POST /api/admin/schedules/run": _OPERATE_ALL,
    "POST /api/admin/maintain": _OPERATE_ALL,
    "GET /api/admin/delete-reaper/schedule": Need("read", "all"),
    # It is a schedule of an internal queue.
    "PUT /api/admin/delete-reaper/schedule": Need("admin", "all"),
    "GET /api/admin/activity": Need("operate", "own"),
    "GET /api/keys": Need("admin", "own"),
    "POST /api/keys": _KEY,
    "GET /api/keys/{key}": _KEY,
    "PATCH /api/keys/{key}": _KEY,
    "DELETE /api/keys/{key}": _KEY,
    # Each verb has a separate need: see VERBS.
    "POST /api/verbs": ANY_KEY,
    "GET /managed-services": Need("read", "all"),
    "POST /managed-services": Need("admin", "all"),
    "GET /managed-services/{service}": Need("read", "all"),
    "PATCH /managed-services/{service}": Need("admin", "all"),
    "DELETE /managed-services/{service}": Need("admin", "all"),
    "POST /managed-services/{service}/check": _OPERATE_ALL,
    # Tasks may be about any queue of the service.
    "GET /managed-services/{service}/tasks": Need("read", "all"),
    "GET /managed-services/{service}/tasks/{task}": Need("read", "all"),
    "POST /managed-services/{service}/tasks/{task}/cancel": _OPERATE_ALL,
    "POST /managed-services/{service}/tasks/{task}/retry": _OPERATE_ALL,
    f"POST {_QUEUES}": _OPERATE_BODY,
    f"GET {_QUEUES}": _READ_OWN,
    f"GET {_QUEUES}/{{queue}}": Need("read", "path", "queue"),
    f"DELETE {_QUEUES}/{{queue}}": Need("operate", "path", "queue"),
    f"POST {_QUEUES}/{{queue}}/retry": Need("operate", "path", "queue"),
    f"POST {_QUEUES}/{{queue}}/messages": Need("enqueue", "path", "queue"),
    f"GET {_QUEUES}/{{queue}}/messages": Need("enqueue", "path", "queue"),
    f"POST {_QUEUES}/{{queue}}/stats": Need("read", "path", "queue"),
    f"GET {_QUEUES}/{{queue}}/stats": Need("read", "path", "queue"),
    "GET /healthz/live": OPEN,
    "GET /healthz/ready": OPEN,
    "GET /metrics": _READ_OWN,
    "GET /openapi.json": OPEN,
    "GET /docs": OPEN,
}

# Each has a JSON document at the same path with `.json`, for the same key.
PAGES: Final[Mapping[str, Need]] = {
    "/": _READ_OWN,
    "/queues": _READ_OWN,
    "/queues/{name}/": Need("read", "path", "name"),
    "/messages": _READ_OWN,
    "/messages/{id}": _READ_MESSAGE,
    "/dead-letters": _READ_OWN,
    "/workers": _READ_OWN,
    "/schedules": _READ_OWN,
    # The members of a batch may be in any queues.
    "/batches": Need("read", "all"),
    "/batches/{id}": Need("read", "all"),
    "/analytics": _READ_OWN,
    "/services": Need("read", "all"),
    "/services/{service}": Need("read", "all"),
    "/subscriptions": _READ_OWN,
    "/system": Need("read", "all"),
    "/activity": Need("operate", "own"),
    "/keys": Need("admin", "own"),
    "/find": _READ_OWN,
    "/bulk-acts": Need("operate", "own"),
    "/runbooks": Need("read", "none"),
}

# The form, its JSON document, and the POST.
ACTS: Final[Mapping[str, Need]] = {
    "/queues/create": _OPERATE_BODY,
    "/queues/{name}/settings": _OPERATE_NAME,
    "/queues/{name}/pause": _OPERATE_NAME,
    "/queues/{name}/resume": _OPERATE_NAME,
    "/queues/{name}/purge": _OPERATE_NAME,
    "/queues/{name}/purge-dead": _OPERATE_NAME,
    "/queues/{name}/undo-purge": _OPERATE_NAME,
    "/queues/{name}/undo-purge-dead": _OPERATE_NAME,
    "/queues/{name}/redrive": _OPERATE_NAME,
    "/queues/{name}/drop": _OPERATE_NAME,
    "/messages/cancel": _OPERATE_BODY,
    "/messages/bulk": _OPERATE_BODY,
    "/bulk-acts/{id}/stop": Need("operate", "bulk", "id"),
    "/messages/{id}/cancel": _OPERATE_MESSAGE,
    "/messages/{id}/requeue": _OPERATE_MESSAGE,
    "/messages/{id}/replay": _OPERATE_MESSAGE,
    # An edited copy is a new message.
    "/messages/{id}/copy": Need("operate", "message", "id", also="enqueue"),
    "/schedules/create": _OPERATE_BODY,
    "/schedules/{name}/edit": _OPERATE_SCHEDULE,
    "/schedules/{name}/pause": _OPERATE_SCHEDULE,
    "/schedules/{name}/resume": _OPERATE_SCHEDULE,
    "/schedules/{name}/fire": _OPERATE_SCHEDULE,
    "/schedules/{name}/drop": _OPERATE_SCHEDULE,
    "/services/add": Need("admin", "all"),
    "/services/{service}/change": Need("admin", "all"),
    "/services/{service}/remove": Need("admin", "all"),
    "/services/{service}/queues/{queue}/retry": Need("operate", "path", "queue"),
    "/services/{service}/queues/{queue}/forget": Need("operate", "path", "queue"),
    "/services/{service}/tasks/{task}/cancel": _OPERATE_ALL,
    "/services/{service}/tasks/{task}/retry": _OPERATE_ALL,
    "/subscriptions/create": _OPERATE_BODY,
    "/subscriptions/{subscription}/pause": _OPERATE_SUBSCRIPTION,
    "/subscriptions/{subscription}/resume": _OPERATE_SUBSCRIPTION,
    "/subscriptions/{subscription}/change": _OPERATE_SUBSCRIPTION,
    "/subscriptions/{subscription}/replace-secret": _OPERATE_SUBSCRIPTION,
    "/subscriptions/{subscription}/drop": _OPERATE_SUBSCRIPTION,
    "/keys/create": _KEY,
    "/keys/{key}/edit": _KEY,
    "/keys/{key}/revoke": _KEY,
    "/findings/acknowledge": _OPERATE_BODY,
    "/findings/mute": _OPERATE_BODY,
    "/findings/clear": _OPERATE_BODY,
    "/workers/quiet": _OPERATE_WORKER,
    "/workers/resume": _OPERATE_WORKER,
    "/workers/stop": _OPERATE_WORKER,
    "/batches/{id}/cancel": _OPERATE_ALL,
    "/system/end-session": Need("admin", "all"),
    "/system/maintain": _OPERATE_ALL,
    "/system/expiry-reaper": _OPERATE_ALL,
    "/system/delete-reaper": _OPERATE_ALL,
}

WITHOUT_KEY: Final[Mapping[str, Need]] = {
    # It only adds a slash to the address of a page.
    "GET /queues/{name}": OPEN,
    "GET /login": OPEN,
    "POST /login": OPEN,
    "GET /login/sso": OPEN,
    "GET /login/callback": OPEN,
    "POST /logout": OPEN,
    "POST /theme": OPEN,
    "POST /time-zone": OPEN,
    "GET /static/{mark}/{name}": OPEN,
    "GET /live": ANY_KEY,
}

VERBS: Final[Mapping[str, Need]] = {
    "enqueue": Need("enqueue", "body", "queue"),
    "enqueue_many": Need("enqueue", "body", "queue"),
    "claim": Need("consume", "body", "queue"),
    "ack": _LEASE,
    "ack_many": _LEASES,
    "nack": _LEASE,
    "nack_many": _LEASES,
    "reject": _LEASE,
    "reject_many": _LEASES,
    "snooze": _LEASE,
    "snooze_many": _LEASES,
    "extend": _LEASE,
    "extend_many": _LEASES,
    "cancel": _OPERATE_MESSAGE,
    "redrive": Need("operate", "body", "queue"),
    "replay": _OPERATE_MESSAGE,
    "move": Need("operate", "message", "ids"),
    "set_priority": Need("operate", "message", "ids"),
    "create_queue": Need("operate", "body", "name"),
    "set_queue": Need("operate", "body", "name"),
    "drop_queue": Need("operate", "body", "name"),
    "pause": Need("operate", "body", "name"),
    "resume": Need("operate", "body", "name"),
    "purge": Need("operate", "body", "name"),
    "undo_purge": Need("operate", "body", "name"),
    "maintain": _OPERATE_ALL,
    "command_worker": _OPERATE_WORKER,
    "create_schedule": Need("operate", "body", "queue"),
    "set_schedule": _OPERATE_SCHEDULE,
    "drop_schedule": _OPERATE_SCHEDULE,
    "pause_schedule": _OPERATE_SCHEDULE,
    "resume_schedule": _OPERATE_SCHEDULE,
    "fire_schedule": _OPERATE_SCHEDULE,
    "fire_schedules": _OPERATE_ALL,
    "next_fires": Need("read", "none"),
    "queues": Need("read", "own", "name"),
    "stats": Need("read", "body", "queue"),
    "message": _READ_MESSAGE,
    "messages": Need("read", "body", "queue"),
    "history": Need("read", "body", "queue"),
    "workers": _READ_OWN,
    "schedules": _READ_OWN,
    "schedule_page": _READ_OWN,
    "schema_version": ANY_KEY,
}


class UndeclaredError(Exception):
    """A route, page or verb has no need here, or a need has no route."""


def _by_route() -> dict[str, Need]:
    found = {**API, **WITHOUT_KEY}
    for path, need in {**PAGES, **ACTS}.items():
        found[f"GET {path}"] = found[f"GET {json_path(path)}"] = need
    return found | {f"POST {path}": need for path, need in ACTS.items()}


def json_path(path: str) -> str:
    """The path of the JSON document of a page."""
    return "/overview.json" if path == "/" else path.rstrip("/") + ".json"


ROUTES: Final[Mapping[str, Need]] = _by_route()
"""Every route of the server, as `METHOD /path`."""


def need_of(method: str, path: str) -> Need:
    """The need of a route. UndeclaredError if it is not declared."""
    return _found(ROUTES, f"{method} {path}")


def need_of_verb(verb: str) -> Need:
    return _found(VERBS, verb)


def check_declared(routes: Iterable[str], verbs: Iterable[str]) -> None:
    """UndeclaredError unless the existing and the declared routes are the same."""
    for kind, there, declared in (("route", routes, ROUTES), ("verb", verbs, VERBS)):
        if odd := sorted(set(there) ^ set(declared)):
            raise UndeclaredError(
                f"{kind} {odd[0]!r} is declared in server/auth/permissions.py and does not exist"
                if odd[0] in declared
                else f"{kind} {odd[0]!r} has no declared permission: declare it in "
                "server/auth/permissions.py"
            )


def _found(declared: Mapping[str, Need], what: str) -> Need:
    if what not in declared:
        raise UndeclaredError(
            f"{what!r} has no declared permission: declare it in server/auth/permissions.py"
        )
    return declared[what]
