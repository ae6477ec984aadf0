"""Settling: with the lease in hand, and without."""

from __future__ import annotations

import psycopg

from .arena import Arena, RefusedError, Session, require
from .model import Layer, Message, finish, give_back

LATER = "1 hour"
SETTLE = {
    "ack": "select penstock.ack(%s, %s) as state",
    "nack": "select penstock.nack(%s, %s, 'an error', '0') as state",
    "nack later": f"select penstock.nack(%s, %s, 'an error', '{LATER}') as state",
    "reject": "select penstock.reject(%s, %s, 'a reason') as state",
    "snooze": "select penstock.snooze(%s, %s) as state",
    "snooze later": f"select penstock.snooze(%s, %s, '{LATER}') as state",
    "extend": "select penstock.extend(%s, %s) as state",
}


class Settling(Arena):
    def leases(self, session: Session) -> list[Message]:
        """What the session may settle: leases that are held, as it sees them."""
        return [m for m in session.layer if m.held and not self.locked_elsewhere(session, m.id)]

    def settle(self, session: Session, message: Message, verb: str) -> None:
        if session.repeatable and message.id in self.committed and message.key:
            return  # what a snapshot may know of a key is another matter
        may_wait = message.key is not None and verb.split()[0] in ("nack", "snooze")
        by_snapshot = session.repeatable
        try:
            row = self.run(
                session, message.queue, SETTLE[verb], [message.id, message.token], may_wait
            )
        except RefusedError as refused:
            # A snapshot older than the lease does not know it.
            require(refused.by_lock or by_snapshot, f"{verb} of {message}: {refused}")
            return
        if verb == "extend":
            session.layer.put(message)  # its row is locked until commit
        else:
            state = self._settled(session.layer, message, verb)
            assert verb == "ack" or row[0]["state"] == state, f"{verb}: {row} is not {state}"
        self.settle_layer(session)

    def _settled(self, layer: Layer, message: Message, verb: str) -> str:
        if verb == "ack":
            finish(layer, message, "done")
            return "done"
        error = {"nack": "an error", "reject": "a reason"}.get(verb.split()[0])
        return give_back(
            layer,
            self.queues[message.queue],
            message,
            error=error,
            later=verb.endswith("later"),
            give_up=verb == "reject",
            free=verb.startswith("snooze"),
            step=self.step,
        )

    def ack_many(
        self, session: Session, messages: list[Message], strangers: list[tuple[int, int]]
    ) -> None:
        pairs = [(m.id, m.token) for m in messages] + strangers
        if session.open:
            session.touched |= {m.queue for m in messages}
        try:
            rows = self.run(
                session,
                messages[0].queue,
                "select penstock.ack_many(%s, %s) as id",
                [[p[0] for p in pairs], [p[1] for p in pairs]],
            )
        except RefusedError as refused:
            require(refused.by_lock, refused)
            return
        settled = [row["id"] for row in rows]
        assert len(set(settled)) == len(settled), f"settled twice: {settled}"
        assert set(settled) <= {m.id for m in messages}
        assert session.repeatable or len(settled) == len(messages), f"{settled} of {messages}"
        for message in messages:
            if message.id in settled:
                finish(session.layer, message, "done")
        self.settle_layer(session)

    def lost_leases(self, session: Session) -> list[tuple[int, int]]:
        """Ids with tokens that are good for nothing, as this session sees it.

        First those of messages that are leased, or whose leases have expired: there a wrong
        or a late token could do harm.
        """
        leased, others = [], []
        seen = {m.id: m for m in session.layer}
        for message_id, tokens in self.ever_leased.items():
            before = self.committed.get(message_id)
            if before and before.held and self.locked_elsewhere(session, message_id):
                continue  # another session settles it: the second one waits
            known = seen.get(message_id)
            current = known.token if known is not None and known.held else None
            lost = [(message_id, token) for token in sorted(tokens) if token != current]
            if current is None:
                ran_out = known is not None and known.state == "leased"
                (leased if ran_out else others).extend(lost)
            else:
                leased += [*lost, (message_id, current + 32), (message_id + 1_000_000, current)]
        return leased + others

    def settle_lost(self, session: Session, lost: tuple[int, int], verb: str) -> None:
        """It may only raise PS007; in a transaction, behind a savepoint."""
        if session.open:
            session.connection.execute("savepoint before")
        try:
            row = session.connection.execute(SETTLE[verb], lost).fetchall()
        except psycopg.Error as error:
            by_snapshot = session.repeatable and error.sqlstate == "40001"
            lost_it = error.sqlstate == "PS007" or by_snapshot
            require(lost_it, f"{verb} of {lost}, a lost lease: {error}")
        else:
            raise AssertionError(f"{verb} of {lost}, a lost lease, gave {row}")
        if session.open:
            session.connection.execute("rollback to savepoint before")
