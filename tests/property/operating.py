"""Operating: cancel, purge, redrive, pause, maintain; time passing; the ring turning."""

from __future__ import annotations

from dataclasses import replace

from .arena import RefusedError, Session, require
from .claiming import Claiming
from .model import UNCOMMITTED, Layer, Message, finish, yields

LEASED = [f"leased_{n}" for n in range(9)]
READY = [f"lane_{n}" for n in range(9)]

_ENVELOPE = (
    "id, enqueued_at, expires_at, first_claimed_at, claimed_at, dead_at, queue_id, priority, "
    "attempt, max_attempts, body_slot, worker, key, group_key, headers, payload, payload_bytes, "
    "last_error"
)
_LIFT = f"""
with gone as (
  delete from penstock.held_{{n}} where place = any (array(
    select place from penstock.held_{{n}} where id = %s for update skip locked))
  returning token, lease_until, position, watched, {_ENVELOPE})
insert into penstock.leased_{{n}} select * from gone
"""


class Operating(Claiming):
    number = 0

    def cancel(self, session: Session, message: Message) -> None:
        try:
            rows = self.run(
                session,
                message.queue,
                "select penstock.cancel(%s) as state",
                [message.id],
                may_wait=True,
            )
        except RefusedError as refused:
            gone = refused.sqlstate == "PS010" and self._may_be_gone(session, message)
            require(refused.by_lock or gone, f"cancel of {message}: {refused}")
            return
        assert not message.finished, f"cancelled twice: {message}"
        assert rows[0]["state"] == message.shown_as(), f"{rows} but {message}"
        finish(session.layer, message, "cancelled")
        self.settle_layer(session)

    @staticmethod
    def _may_be_gone(session: Session, message: Message) -> bool:
        return message.finished or session.repeatable

    def purge(self, session: Session, queue: str, which: str) -> None:
        name = f"{queue}.dlq" if which == "dead" else queue
        try:
            count = self.run(
                session,
                queue,
                "select penstock.purge(%s, %s) as n",
                [name, which == "leased"],
                may_wait=True,
            )[0]["n"]
        except RefusedError as refused:
            require(refused.by_lock, refused)
            return
        gone = [
            m
            for m in session.layer.of(queue)
            if not m.finished
            and (
                m.state == "dead"
                if which == "dead"
                else m.state == "waiting"
                or (which == "leased" and m.state == "leased" and not m.dead_letter)
            )
        ]
        for message in gone:
            finish(session.layer, message, "cancelled")
        assert count == len(gone), f"purged {count} of {gone}"
        self.settle_layer(session)

    def redrive(self, session: Session, queue: str, at_most: int) -> None:
        dead = sorted(
            (
                m
                for m in session.layer.of(queue)
                if m.state == "dead" and not m.finished and not self.locked_elsewhere(session, m.id)
            ),
            key=lambda m: m.id,
        )[:at_most]
        scratch = Layer(self.committed, dict(session.layer.own))
        try:
            count = self.run(
                session,
                queue,
                "select penstock.redrive(%s, max_count => %s) as n",
                [queue, at_most],
                may_wait=True,
            )[0]["n"]
        except RefusedError as refused:
            elsewhere = self.admitted_elsewhere(session, queue)
            full = refused.sqlstate == "PS008" and not self._revive(scratch, queue, dead, elsewhere)
            require(refused.by_lock or full, f"redrive of {dead}: {refused}")
            return
        assert count == len(dead), f"redrove {count} of {dead}"
        assert self._revive(session.layer, queue, dead), "redrive should have said PS008"
        self.settle_layer(session)

    def _revive(self, layer: Layer, queue: str, dead: list[Message], elsewhere: int = 0) -> bool:
        depth = self.queues[queue].max_depth
        for message in dead:
            waiting = sum(m.unsettled for m in layer.of(queue))
            if depth is not None and waiting + elsewhere >= depth:
                return False
            self.number += 1
            highest = max(m.id for s in self.sessions for m in s.layer)
            message = replace(
                message,
                dead_letter=False,
                attempt=0,
                state="waiting",
                due=True,
                in_order=False,
                moved_at=self.step,
                place=(UNCOMMITTED, highest, self.number),
            )
            if yields(layer, message):
                finish(layer, message, "superseded")
                continue
            layer.put(message)
        return True

    def pause(self, session: Session, queue: str, paused: bool) -> None:
        verb = "pause" if paused else "resume"
        try:
            self.run(session, queue, f"select penstock.{verb}(%s)", [queue], may_wait=True)
        except RefusedError as refused:
            require(refused.by_lock, refused)
            return
        self.paused[queue] = paused

    def maintain(self, session: Session, full: bool) -> None:
        self.run(session, next(iter(self.queues)), "select penstock.maintain(%s)", [full])
        self._reconcile(session)

    # Time

    def let_lease_run_out(self, message: Message) -> None:
        self._lift(message)
        if self.pass_time(message, "lease_until", LEASED):
            self.committed[message.id] = replace(
                message, over=True, in_order=False, moved_at=self.step
            )

    def _lift(self, message: Message) -> None:
        """Takes a message out of the claim that holds it: time is to pass for it alone."""
        for n in range(9):
            self.admin.execute(_LIFT.format(n=n), [message.id])

    def let_delay_end(self, message: Message) -> None:
        """Time passes for the message, and for all of its group: theirs is one clock."""
        if message.group is None:
            if self.pass_time(message, "due_at", ["scheduled"]):
                self._now_due(message)
            return
        if any(message.queue in s.touched or s.tended_at >= 0 for s in self.sessions):
            return  # a session may be writing the group token, whose time we could not reach
        for member in Layer(self.committed).group(message.queue, message.group):
            if (
                member.state == "waiting"
                and not member.due
                and self.pass_time(member, "visible_at", ["grouped"])
            ):
                self._now_due(member)
        self.admin.execute(
            "update penstock.scheduled set due_at = clock_timestamp() - interval '1 ms' where"
            " ctid = any (array(select ctid from penstock.scheduled where group_key = %s and"
            " queue_id = (select id from penstock.queue where name = %s) for update skip locked))",
            [message.group, message.queue],
        )

    def _now_due(self, message: Message) -> None:
        self.committed[message.id] = replace(message, due=True, in_order=False, moved_at=self.step)

    def let_ttl_end(self, message: Message) -> None:
        if self.pass_time(message, "expires_at", ["scheduled", "grouped", *READY, *LEASED]):
            self.committed[message.id] = replace(message, outlived=True)

    # The ring

    def rotate(self, times: int) -> None:
        for _ in range(times):
            self.admin.execute("select setval('penstock.ring_until', 0)")
            self.admin.execute("select penstock._rotate()")

    def tend(self) -> None:
        for _ in range(2):  # the first finds what is drained, the second frees it
            self.admin.execute("select penstock._tend_ring()")
            self.drain_time()

    def mislead(self, queue: str) -> None:
        """Every floor is put far too high. A floor is a hint, and hides no message permanently."""
        self.misled = True
        self.admin.execute(
            "select setval(floor, 1000000000), setval('penstock.lease_floor', %(far)s),"
            " setval('penstock.due_floor', %(far)s)"
            " from penstock.queue, unnest(floors) floor where name = %(queue)s",
            {"far": 1 << 52, "queue": queue},
        )
