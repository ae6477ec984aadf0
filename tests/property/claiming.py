"""Claiming: what a claim must hand out, may hand out, and in which order."""

from __future__ import annotations

from typing import Any

from .arena import Arena, RefusedError, Session
from .model import LEASE_EXPIRED, UNCOMMITTED, Layer, Message, finish


class Claiming(Arena):
    def claim(self, session: Session, queue: str, count: int, upkeep: bool) -> list[Message]:
        """Claims; with all upkeep due, as often as it takes to find what has to be found.

        A claim may come back short though there is more: what it made room for turned out to be
        expired, or a group without messages. It must not take more than three.
        """
        sure = self._surely_available(session, queue) if upkeep else set()
        required = min(count, self._allowed(session, queue, count)[0], len(sure))
        taken: list[Message] = []
        for _ in range(3):
            self.clocks(queue, upkeep)
            more = self._claim_once(session, queue, count - len(taken))
            if more is None:
                return taken
            taken += more
            if len(taken) >= required:
                return taken
        raise AssertionError(f"claimed {[m.id for m in taken]} of at least {sorted(sure)}")

    def _claim_once(self, session: Session, queue: str, count: int) -> list[Message] | None:
        before = [
            m
            for m in session.layer.of(queue)
            if m.in_order and m.claimable and not m.key and not self.locked_elsewhere(session, m.id)
        ]
        allowed = self._allowed(session, queue, count)[1]
        try:
            rows = self.run(
                session, queue, "select * from penstock.claim(%s, %s, null, 'w')", [queue, count]
            )
        except RefusedError:
            return None
        if session.open:
            session.claimed.add(queue)
            if not session.repeatable:
                session.tended_at = self.step
        taken = [self._take(session, row) for row in rows]
        self._reconcile(session)
        assert len(taken) <= min(count, allowed), f"claimed {len(taken)} of {allowed}"
        for message in taken:
            self._check_turn(session, message)
        if not session.repeatable and not self.misled:
            self._check_order(taken, before)
        return taken

    def _check_turn(self, session: Session, message: Message) -> None:
        """It had no newer rival with its key, and was the first of its group."""
        if message.key is not None and message.last_error == LEASE_EXPIRED:
            newer = [
                m.id
                for m in session.layer.with_key(message.queue, message.key, "waiting")
                if m.id > message.id and not self.locked_elsewhere(session, m.id)
            ]
            assert not newer, f"{message.id} came back though {newer} had its key"
        if message.group is not None:
            head = session.layer.group(message.queue, message.group)[0]
            while head.outlived and head.state == "waiting" and session.repeatable:
                finish(session.layer, head, "expired")  # seen after the commit, if it is so
                head = session.layer.group(message.queue, message.group)[0]
            assert head.id == message.id, f"{message.id} of the group came before {head.id}"

    def _take(self, session: Session, row: dict[str, Any]) -> Message:
        """One message was handed out: it must have been free to be, and be whole."""
        known = {m.id: m for m in session.layer}
        assert row["id"] in known, f"a message not enqueued, or not committed: {row}"
        message = known[row["id"]]
        assert not self.locked_elsewhere(session, message.id), f"another session holds {message}"
        if message.over and message.claimable:  # back for a moment, and claimed again
            message = session.layer.change(
                message,
                state="waiting",
                over=False,
                in_order=False,
                last_error=LEASE_EXPIRED,
                attempts_logged=message.attempts_logged + 1,
            )
        assert message.claimable, f"not free to be claimed: {message}"
        if message.group is not None:
            held = [
                m.id
                for m in self._held(session, message.queue)
                if m.group == message.group and not m.dead_letter
            ]
            assert not held, f"{message.id} was claimed while {held} of its group was leased"
        message = session.layer.change(
            message, state="leased", token=row["token"], over=False, attempt=message.attempt + 1
        )
        self.ever_leased.setdefault(message.id, set()).add(row["token"])
        self._check_row(message, row)
        return message

    @staticmethod
    def _check_row(message: Message, row: dict[str, Any]) -> None:
        wanted = {
            "queue": message.queue + (".dlq" if message.dead_letter else ""),
            "payload": message.payload,
            "payload_bytes": message.payload_bytes,
            "headers": message.headers,
            "key": message.key,
            "priority": message.priority,
            "group_key": message.group,
            "attempt": message.attempt,
            "max_attempts": message.max_attempts,
            "last_error": message.last_error,
        }
        wrong = {k: (v, row[k]) for k, v in wanted.items() if row[k] != v}
        assert not wrong, f"claimed {message.id}, expected and found: {wrong}"
        assert (row["expires_at"] is not None) == message.has_ttl

    @staticmethod
    def _check_order(taken: list[Message], before: list[Message]) -> None:
        """Highest priority first; within one, first deliveries in order of enqueue."""
        ranks = [-m.priority for m in taken if m.group is None]
        assert ranks == sorted(ranks), f"priorities came as {ranks}"
        was_in_order = {m.id for m in before}
        first = [(-m.priority, m.id) for m in taken if m.id in was_in_order]
        assert first == sorted(first), f"first deliveries came as {first}"
        if ranks:
            last = max([*first, (ranks[-1], -1)])
            left = [(-m.priority, m.id) for m in before if m.id not in {t.id for t in taken}]
            passed = [m for m in left if m < last]
            assert not passed, f"(-priority, id) {passed} were passed over for {first}"

    def _allowed(self, session: Session, queue: str, count: int) -> tuple[int, int]:
        """How many a claim must be able to hand out, and how many it may, under max_in_flight."""
        limit = self.queues[queue].max_in_flight
        if self.paused[queue]:  # a snapshot may be older than the pause
            return 0, count if session.repeatable else 0
        if limit is None:
            return count, count
        out = {m.id for m in self._held(session, queue) if not m.dead_letter}
        busy = any(queue in s.claimed for s in self.others(session))
        return (0 if busy else max(limit - len(out), 0)), max(limit - len(out), 0)

    def _held(self, session: Session, queue: str) -> list[Message]:
        """Leases that the session sees, and those that others have not committed yet."""
        others = [m for s in self.others(session) for m in s.layer.own.values() if m.queue == queue]
        return [m for m in [*session.layer.of(queue), *others] if m.held]

    def _surely_available(self, session: Session, queue: str) -> set[int]:
        """What a claim with all its upkeep due has to find, without what others have locked."""
        if self.paused[queue] or session.repeatable or self.misled:
            return set()
        sure = set()
        for m in session.layer.of(queue):
            if m.claimable and not self._uncertain(session, m):
                sure.add(m.id)
        return sure

    def _uncertain(self, session: Session, message: Message) -> bool:
        others = self.others(session)
        if self.locked_elsewhere(session, message.id):
            return True
        if any(s.tended_at >= message.moved_at and message.moved_at for s in others):
            return True  # a session may be moving it, in a transaction that is still open
        if message.key is not None:
            rivals = [
                m
                for m in session.layer
                if m.key == message.key and m.id != message.id and m.unsettled
            ]
            if rivals or any(message.queue in s.touched for s in others):
                return True
        if message.group is None:
            return False
        if message.place[0] == UNCOMMITTED:
            return True  # it joins its group at commit
        members = session.layer.group(message.queue, message.group)
        return (
            members[0].id != message.id
            or any(m.state == "leased" for m in members)
            or any(message.queue in s.touched or s.tended_at >= 0 for s in others)
        )

    def _reconcile(self, session: Session) -> None:
        """Timers may have run. What they did in an open transaction is its own for now."""
        self.settle_layer(session)
        if not session.repeatable and any(
            (m.state == "leased" and m.over) or m.outlived for m in session.layer if not m.finished
        ):
            if session.open:
                self.compare(session.layer, session.connection)
            else:
                self.compare(Layer(self.committed), self.admin)

    def claim_dead(self, session: Session, queue: str, count: int) -> None:
        free = [
            m
            for m in session.layer.of(queue)
            if m.dead_letter
            and not m.finished
            and not m.held
            and not self.locked_elsewhere(session, m.id)
        ]
        sure = [m for m in free if not any(s.tended_at >= 0 for s in self.others(session))]
        try:
            rows = self.run(
                session, queue, "select * from penstock.claim(%s, %s)", [f"{queue}.dlq", count]
            )
        except RefusedError:
            return
        for row in rows:
            message = session.layer[row["id"]]
            assert message.id in {m.id for m in free}, f"not free to be claimed: {message}"
            error = LEASE_EXPIRED if message.over else message.last_error
            message = session.layer.change(
                message,
                state="leased",
                token=row["token"],
                over=False,
                attempt=message.attempt + 1,
                last_error=error,
            )
            self.ever_leased.setdefault(message.id, set()).add(row["token"])
            self._check_row(message, row)
        if not session.repeatable:
            assert len(rows) >= min(count, len(sure)), f"claimed {len(rows)} of {sure}"
        self._reconcile(session)
