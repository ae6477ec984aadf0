"""Real sessions on a real database, each with the layer of the model that it should see."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from .model import UNCOMMITTED, Layer, Message, Queue, resolutions

HERE = Path(__file__).parent
KINDS = ("lane", "leased", "grant", "body", "deferred")
SEGMENTS = [f"penstock.{kind}_{n}" for kind in KINDS for n in range(9)]
TABLES = [
    *SEGMENTS,
    *(
        f"penstock.{t}"
        for t in (
            "scheduled",
            "grouped",
            "message_group",
            "message_key",
            "dead",
            "history_log",
            "attempt_log",
        )
    ),
]
NO_AUTOVACUUM = """
do $$ declare t regclass;
begin
  for t in select oid from pg_class where relnamespace = 'penstock'::regnamespace and relkind = 'r'
  loop
    execute format(
      'alter table %s set (autovacuum_enabled = off, toast.autovacuum_enabled = off)', t);
  end loop;
end $$
"""
SOON_US = 900_000  # a clock further ahead than a second counts as unset
SHOWN = (
    "id, queue, state, payload, payload_bytes, headers, key, priority, group_key, attempt, "
    "max_attempts, last_error, expires_at is not null as has_ttl, "
    "lease_until is not null as leased"
)
ENDED = (
    "id, queue, state, payload, payload_bytes, headers, key, priority, group_key, "
    "attempts as attempt, max_attempts, last_error"
)


def require(truth: bool, *facts: object) -> None:
    """An assertion, for where an error of the database is judged."""
    if not truth:
        raise AssertionError(*facts)


class RefusedError(Exception):
    """The database said no: a rule of the queue (PSxxx), or another session's lock."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate

    @property
    def by_lock(self) -> bool:
        return self.sqlstate in ("55P03", "40001")


@dataclass
class Session:
    number: int
    connection: psycopg.Connection[Any]
    layer: Layer
    open: bool = False
    repeatable: bool = False
    touched: set[str] = field(default_factory=set)  # queues it may hold locks in
    claimed: set[str] = field(default_factory=set)
    tended_at: int = -1  # the last step at which it may have run timers


class Arena:
    def __init__(self, dsn: str, sessions: int = 3) -> None:
        self.committed: dict[int, Message] = {}
        self.queues: dict[str, Queue] = {}
        self.notices: list[str] = []
        self.runs = self.steps = self.step = 0
        self.admin = self._connect(dsn)
        # No session may wait for a lock that no step has taken: autovacuum would take some.
        self.admin.execute(NO_AUTOVACUUM)
        self.sessions = [
            Session(n, self._connect(dsn), Layer(self.committed)) for n in range(sessions)
        ]
        self.structure = (HERE / "structure.sql").read_text()

    def _connect(self, dsn: str) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(
            dsn, autocommit=True, row_factory=dict_row, prepare_threshold=2
        )  # type: ignore[arg-type]
        connection.execute("set statement_timeout = '20s'")
        connection.execute("set lock_timeout = '300ms'")
        # An error in the upkeep at commit does not reach the caller; it must not happen either.
        connection.execute("set client_min_messages = log")
        connection.add_notice_handler(self._notice)
        return connection

    def _notice(self, notice: psycopg.errors.Diagnostic) -> None:
        if (notice.message_primary or "").startswith("penstock upkeep"):
            self.notices.append(f"{notice.message_primary} {notice.context}")

    def close(self) -> None:
        for connection in [self.admin, *(s.connection for s in self.sessions)]:
            connection.close()

    # A run starts on empty tables and a ring of one segment, so that it can be repeated.

    def reset(self, queues: Iterable[Queue]) -> None:
        self.abandon()
        for name in self.queues:
            self.admin.execute(
                "select penstock.drop_queue(name, true) from penstock.queue where name = %s", [name]
            )
        self.admin.execute("truncate " + ", ".join(TABLES))
        self.admin.execute(
            "select setval('penstock.ring', 91), setval('penstock.ring_until',"
            " pg_sequence_last_value('penstock.position') + 32768)"
        )
        self.runs += 1
        self.step = 0
        self.misled = False
        self.commits = 0
        self.notices.clear()
        self.committed.clear()
        self.queues = {q.name: q for q in queues}
        self.paused = dict.fromkeys(self.queues, False)
        self.ever_leased: dict[int, set[int]] = {}
        for queue in self.queues.values():
            self.admin.execute(
                "select penstock.create_queue(%s, %s)", [queue.name, Jsonb(queue.settings())]
            )

    def abandon(self) -> None:
        """Ends the transactions that a failed run left open."""
        for session in self.sessions:
            session.connection.rollback()
            session.connection.autocommit = True
            self._forget(session)

    @staticmethod
    def _forget(session: Session) -> None:
        session.open = session.repeatable = False
        session.layer.own = {}
        session.touched, session.claimed, session.tended_at = set(), set(), -1

    # Transactions

    def begin(self, session: Session, repeatable: bool) -> None:
        session.connection.autocommit = False
        level = psycopg.IsolationLevel.REPEATABLE_READ if repeatable else None
        session.connection.isolation_level = level
        session.open, session.repeatable = True, repeatable

    def commit(self, session: Session) -> None:
        try:
            session.connection.commit()
        except psycopg.errors.SerializationFailure:
            # Another transaction has begun a group that this one enqueued into.
            if not session.repeatable:
                raise
            self.roll_back(session)
            return
        session.connection.autocommit = True
        self._publish(session)
        self._forget(session)

    def _publish(self, session: Session) -> None:
        """Its changes are there for all. Messages take their places in their groups."""
        self.commits += 1
        for message_id, message in session.layer.own.items():
            if message.place[0] == UNCOMMITTED:
                message = replace(message, place=(self.commits, *message.place[1:]))
            self.committed[message_id] = message

    def roll_back(self, session: Session) -> None:
        session.connection.rollback()
        session.connection.autocommit = True
        for message_id in session.layer.own:
            if message_id in self.committed:
                # The message that it had taken is back, but a floor may have passed it.
                message = self.committed[message_id]
                self.committed[message_id] = replace(message, in_order=False, moved_at=self.step)
        self._forget(session)

    def others(self, session: Session) -> list[Session]:
        return [s for s in self.sessions if s is not session and s.open]

    def admitted_elsewhere(self, session: Session, queue: str) -> int:
        """Messages of open transactions of others, which count against max_depth as well."""
        return sum(
            message.queue == queue
            and not ((known := self.committed.get(message.id)) and known.unsettled)
            for other in self.others(session)
            for message in other.layer.own.values()
        )

    def locked_elsewhere(self, session: Session, message_id: int) -> bool:
        return any(message_id in s.layer.own for s in self.others(session))

    def run(
        self, session: Session, queue: str, query: str, params: Any, may_wait: bool = False
    ) -> list[dict[str, Any]]:
        """One step of a session. If it waits for a lock although it may not, the test fails."""
        held = any(queue in s.touched or s.tended_at >= 0 for s in self.others(session))
        if session.open:
            session.touched.add(queue)
        hurried = may_wait and held
        if hurried:
            session.connection.execute("set lock_timeout = '5ms'")
        try:
            rows = session.connection.execute(query, params).fetchall()  # type: ignore[arg-type]
        except psycopg.Error as error:
            state = error.sqlstate or "?"
            expected = state.startswith("PS") or (state == "55P03" and hurried)
            if not expected and not (state == "40001" and session.repeatable):
                raise AssertionError(f"{query} {params}: {state} {error}") from error
            if session.open:
                self.roll_back(session)
            session.layer.own = {}
            raise RefusedError(state) from None
        finally:
            if hurried:
                session.connection.execute("set lock_timeout = '300ms'")
        return rows

    def settle_layer(self, session: Session) -> None:
        """After a step: without a transaction, its changes are there for all."""
        if not session.open:
            self._publish(session)
            session.layer.own = {}

    # The injected clock: the engine reads clock_timestamp(), so time passes in its tables.

    def clocks(self, queue: str, due: bool) -> None:
        """Makes all upkeep of the next claim due, or none of it."""
        # An odd number would say that no lease can have expired, but time passes in the tables.
        soon = (time.time_ns() // 1000 + SOON_US) & ~1
        at = 0 if due else soon
        self.admin.execute(
            "select setval('penstock.tick_at', %(at)s), setval('penstock.ring_check_at', %(at)s),"
            " setval('penstock.upkeep_at', %(at)s), setval('penstock.timer_rescan_at', %(at)s),"
            " setval(sweep_register, %(at)s), setval(rescan_register, %(rescan)s)"
            " from penstock.queue where name = %(queue)s",
            # Without the safety net: a claim finds what is committed, or the test fails.
            {"at": at, "queue": queue, "rescan": at if self.misled else soon + SOON_US},
        )
        if not due:
            return
        if not self.misled:
            self.admin.execute(
                "select setval('penstock.lease_floor', 0), setval('penstock.due_floor', 0)"
            )
        self.drain_time()
        # A group that a message was about to join is looked at again 20 ms later.
        self.admin.execute(
            "update penstock.scheduled set due_at = clock_timestamp() - interval '1 ms'"
            " where ctid = any (array(select ctid from penstock.scheduled where group_key is"
            " not null and due_at < clock_timestamp() + interval '1 minute'"
            " for update skip locked))"
        )

    def drain_time(self) -> None:
        """The second passes for which a drained segment is left alone."""
        self.admin.execute(
            "select "
            + ", ".join(
                f"case when pg_sequence_last_value('penstock.drained_{n}') > 0"
                f" then setval('penstock.drained_{n}', 1) end"
                for n in range(9)
            )
        )

    def pass_time(self, message: Message, column: str, tables: Iterable[str]) -> bool:
        """Moves one time of a message into the past; false if a session holds the message."""
        for table in tables:
            moved = self.admin.execute(
                f"update penstock.{table} set {column} = clock_timestamp() - interval '1 ms'"
                f" where ctid = any (array(select ctid from penstock.{table} where id = %s"
                " and (group_key is null or coalesce(payload::text, payload_bytes::text,"
                " body_slot::text) is not null) for update skip locked)) returning id",
                [message.id],
            ).fetchone()
            if moved:
                return True
        return False

    # What must hold after every step

    def check(self) -> None:
        self.steps += 1
        self.step += 1
        assert not self.notices, self.notices
        self.compare(Layer(self.committed), self.admin)
        problems = self.admin.execute(self.structure).fetchall()
        assert not problems, problems
        for queue in self.queues.values():
            messages = Layer(self.committed).of(queue.name)
            if queue.max_depth is not None:
                assert sum(m.unsettled for m in messages) <= queue.max_depth
            if queue.max_in_flight is not None:
                held = sum(m.held and not m.dead_letter for m in messages)
                assert held <= queue.max_in_flight

    def compare(self, layer: Layer, connection: psycopg.Connection[Any]) -> None:
        """Every message of a layer is where it should be, once, whole; and nothing else is."""
        names = list(self.queues)
        shown = connection.execute(
            f"select {SHOWN} from penstock.messages where queue = any (%s)",
            [names + [f"{name}.dlq" for name in names]],
        ).fetchall()
        ended = connection.execute(
            f"select {ENDED} from penstock.history where queue = any (%s)", [names]
        ).fetchall()
        places: dict[int, list[dict[str, Any]]] = {}
        for row in [*shown, *({**row, "ended": True} for row in ended)]:
            places.setdefault(row["id"], []).append(row)
        for message in list(layer):
            found = places.pop(message.id, [])
            problem = self.mismatch(message, found)
            if problem and not self.resolved(layer, message, found):
                raise AssertionError(f"{problem}\nmodel: {message}\nfound: {found}")
        assert not places, f"messages that were not enqueued: {places}"
        if layer.own and not any(s.layer is layer for s in self.sessions):
            self.committed.update(layer.own)

    def resolved(self, layer: Layer, message: Message, found: list[dict[str, Any]]) -> bool:
        """Did a timer do to the message, unasked, one of the things it may do?"""
        for after in resolutions(layer, self.queues[message.queue], message):
            if not self.mismatch(after[message.id], found):
                layer.own[message.id] = after[message.id]
                return True
        return False

    def mismatch(self, message: Message, found: list[dict[str, Any]]) -> str | None:
        queue = self.queues[message.queue]
        expected = not message.finished or queue.keep_history > 0
        if len(found) != expected:
            return f"message {message.id} is in {len(found)} places"
        if not expected:
            return None
        row = found[0]
        if ("ended" in row) != message.finished:
            return f"message {message.id} is {'' if 'ended' in row else 'not '}in history"
        place = message.queue + (".dlq" if message.dead_letter and not message.finished else "")
        wanted = {
            "queue": place,
            "state": message.state if message.finished else message.shown_as(),
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
        if not message.finished:
            wanted |= {"leased": message.state == "leased", "has_ttl": message.has_ttl}
        wrong = {name: (value, row[name]) for name, value in wanted.items() if row[name] != value}
        return f"message {message.id}, expected and found: {wrong}" if wrong else None
