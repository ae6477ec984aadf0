"""Describes a recorded action in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.model.access import Activity
from penstock.server.ui.formats import count

Tell = Callable[[str, dict[str, Any]], str]


def _counted(verb: str, what: str = "messages") -> Tell:
    return lambda target, details: f"{verb} {count(details.get('count'))} {what} of {target}"


def _plain(verb: str) -> Tell:
    return lambda target, details: f"{verb} {target}"


def _message(verb: str) -> Tell:
    return lambda target, details: f"{verb} message {details.get('id', '')} of {target}"


def _noted(verb: str) -> Tell:
    def tell(target: str, details: dict[str, Any]) -> str:
        subjects = ", ".join(map(str, details.get("subjects", ())))
        reason = f": {details['reason']}" if "reason" in details else ""
        return f"{verb} finding {target} of {subjects}{reason}"

    return tell


def _bulk_act(target: str, details: dict[str, Any]) -> str:
    verb = str(details.get("verb", "")).replace("set_priority", "change the priority")
    what = "a dry run of a bulk act" if details.get("dry_run") else "a bulk act"
    return f"Requested {what}: {verb} in {target or 'all queues'}"


_SENTENCES: Final[dict[str, Tell]] = {
    "create queue": _plain("Created queue"),
    "set queue": _plain("Changed the settings of"),
    "reset queue": _plain("Reset all settings of"),
    "drop queue": _plain("Dropped queue"),
    "pause": _plain("Paused"),
    "resume": _plain("Resumed"),
    "purge": _counted("Purged"),
    "undo purge": _counted("Undid a purge: enqueued", "copies"),
    "bulk act": _bulk_act,
    "stop bulk act": _plain("Stopped bulk act"),
    "redrive": _counted("Redrove", "dead letters"),
    "requeue": _message("Requeued"),
    "replay": lambda target, details: (
        f"Replayed message {details.get('id', '')} into {target}"
        + (f", as message {details['copy']}" if "copy" in details else "")
    ),
    "copy": lambda target, details: (
        f"Enqueued an edited copy of message {details.get('id', '')} into {target}"
        + (f", as message {details['copy']}" if "copy" in details else "")
    ),
    "cancel": lambda target, details: (
        f"Cancelled {count(details['count'])} messages"
        if "count" in details
        else f"Cancelled message {details.get('id', '')} of {target}"
    ),
    "acknowledge": _noted("Acknowledged"),
    "mute": _noted("Muted"),
    "clear finding": _noted("Showed as new"),
    "quiet worker": _plain("Quieted worker"),
    "resume worker": _plain("Resumed worker"),
    "stop worker": _plain("Stopped worker"),
    "end session": lambda target, details: (
        f"Ended session {details.get('pid', '')} of {details.get('application') or 'no name'}"
    ),
    "maintain": lambda target, details: "Ran a maintenance pass",
    "run expiry reaper": lambda target, details: (
        f"Ran the expiry reaper: {count(details.get('expired'))} expired"
    ),
    "run delete reaper": lambda target, details: (
        f"Ran the delete reaper: {count(details.get('count'))} deleted"
    ),
    "add service": _plain("Added service"),
    "change service": _plain("Changed the address of service"),
    "remove service": _plain("Removed service"),
    "create managed queue": _plain("Requested queue"),
    "delete managed queue": _plain("Requested the removal of queue"),
    "retry managed queue": _plain("Retried queue"),
    "cancel task": _plain("Cancelled task"),
    "retry task": _plain("Retried task"),
    "create subscription": _plain("Created subscription"),
    "set subscription": _plain("Changed subscription"),
    "pause subscription": _plain("Paused subscription"),
    "resume subscription": _plain("Resumed subscription"),
    "drop subscription": _plain("Dropped subscription"),
    "replace signing secret": _plain("Replaced the signing secret of subscription"),
    "show signing secret": _plain("Showed the signing secret of subscription"),
    "create key": _plain("Created API key"),
    "set key": lambda target, details: (
        f"Changed API key {target}: {' '.join(details.get('scopes') or ())}, "
        f"expires {details.get('expires_at') or 'never'}"
    ),
    "revoke key": _plain("Revoked API key"),
    "create schedule": _plain("Created schedule"),
    "set schedule": _plain("Changed schedule"),
    "pause schedule": _plain("Paused schedule"),
    "resume schedule": _plain("Resumed schedule"),
    "fire schedule": lambda target, details: (
        f"Fired schedule {target}, as message {details.get('id', '')}"
    ),
    "drop schedule": _plain("Dropped schedule"),
}


def describe(activity: Activity) -> str:
    """`Purged 12 messages of emails`; an unknown action by its name."""
    known = _SENTENCES.get(activity.act)
    target = activity.target or ""
    if known is None:
        return f"{activity.act} {target}".strip().capitalize()
    return known(target, dict(activity.details)).strip()
