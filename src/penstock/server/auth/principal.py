"""The caller of a request, and what it may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from penstock.errors import PermissionDeniedError
from penstock.model.access import INTERNAL, Grant, Scope

_ANSWERS: Final = 1000


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key, identified by its name, or a user, whose id and name are `sso:...`."""

    key_id: str
    name: str
    grants: tuple[Grant, ...]
    # A key made by this one ends no later.
    expires_at: datetime | None = None
    # A cache, because a caller uses the same few queues repeatedly.
    _answers: dict[tuple[Scope, str | None], bool] = field(
        default_factory=dict, compare=False, repr=False
    )

    def may(self, scope: Scope, queue: str | None = None) -> bool:
        """Whether the scope was granted for the queue; without a queue, for any queue at all.

        Internal queues are for admins of all queues.
        """
        known = self._answers.get((scope, queue))
        if known is not None:
            return known
        if len(self._answers) >= _ANSWERS:
            self._answers.clear()
        if queue is not None and queue.startswith(INTERNAL):
            answer = self.is_admin
        else:
            answer = any(grant.covers(scope, queue) for grant in self.grants)
        self._answers[scope, queue] = answer
        return answer

    def require(self, scope: Scope, queue: str | None = None) -> None:
        """PermissionDeniedError unless this scope was granted, for this queue."""
        if self.may(scope, queue):
            return
        if queue is not None and queue.startswith(INTERNAL):
            raise self._denied("admin", "all queues, which internal queues need", queue)
        raise self._denied(scope, None if queue is None else f"queue {queue!r}", queue)

    def require_of(self, what: str, scope: Scope, queue: str) -> None:
        """The same for something in a queue that the caller did not name, such as `message 5`.

        The refusal does not name the queue either: ids can be guessed, one after the other.
        """
        if self.may(scope, queue):
            return
        if self.unlimited(scope):
            raise self._denied("admin", "all queues, which internal queues need", None)
        raise self._denied(scope, f"the queue of {what}", None)

    def require_all(self, scope: Scope) -> None:
        """PermissionDeniedError unless this scope was granted for all queues."""
        if not self.unlimited(scope):
            raise self._denied(scope, "all queues", None)

    def _denied(self, scope: Scope, where: str | None, queue: str | None) -> PermissionDeniedError:
        who, hint = "API key", f"Use a key that has it: `penstock key create NAME --scope {scope}"
        if ":" in self.key_id:
            who, hint = "user", f"PENSTOCK_SSO_ROLES decides which roles have `{scope}"
        pattern = f":{queue}" if queue is not None and not queue.startswith(INTERNAL) else ""
        return PermissionDeniedError(
            f"{who} {self.name!r} lacks the {scope!r} scope" + (f" for {where}" if where else ""),
            hint=f"{hint}{pattern}`.",
            scope=scope,
            queue=queue,
        )

    def unlimited(self, scope: Scope) -> bool:
        """Whether the scope was granted on all queues. Internal queues are not among them."""
        return any(grant.pattern == "*" and grant.covers(scope, None) for grant in self.grants)

    @property
    def is_admin(self) -> bool:
        """Whether everything is allowed, internal queues included."""
        return self.unlimited("admin")

    def includes(self, grants: Iterable[Grant]) -> bool:
        """Whether nothing is granted that this principal may not do."""
        return all(any(own.includes(each) for own in self.grants) for each in grants)

    def require_includes(self, what: str, grants: Iterable[Grant]) -> None:
        """PermissionDeniedError if a key has, or would have, a scope that this one lacks."""
        for grant in grants:
            if not self.includes([grant]):
                raise PermissionDeniedError(
                    f"{self.name!r} lacks the scope {str(grant)!r} of {what}",
                    hint="A key can be managed only by a key that has all of its scopes.",
                    scope=grant.scope,
                    queue=None,
                )

    def only(self, scope: Scope, queues: Iterable[str]) -> list[str]:
        """Those of the queues on which the scope was granted."""
        return [queue for queue in queues if self.may(scope, queue)]
