"""Settings that our functions read, set by any role to any value.

They are hints: a session may slow itself down with them, hide its own wake-ups, or make its own
statements fail. It gains no right, and takes nothing from others: no message is lost or delivered
twice, no limit of another's queue is exceeded, and internal queues stay closed.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.contracts_sql.statements import claim_by

from .conftest import LogIn, Login

# Values that a statement may find in any of them, besides those for one of them.
ANYTHING = [
    "on",
    "",
    "-1",
    "99999999999999999999",
    "claim 10",
    "'; select 1; --",
    "{internal_token}",
]
HOSTILE: dict[str, list[str]] = {
    "penstock.alone": [],
    "penstock.tends": ["off"],
    "penstock.wake_ups": ["off"],
    "penstock.reserved": [" {limited}=0 ", " {limited}=-5 ", " {limited}=16777215 "],
    # Everything that could be announced, so that nothing is.
    "penstock.announced": [
        " {orders}/0  {limited}/0  join  leased  upkeep  soon {orders}  later {orders} ",
    ],
    "mdb_queue.act": ["claim ", "update", "delete"],
    "mdb_queue.claim_act": ["claim 10000"],
    "mdb_queue.claim_text": ["{claim_text}"],
    "mdb_queue.lane": ["{internal}"],
    "mdb_queue.held": ["{internal_token} {native_token}"],
    "mdb_queue.given": ["10000"],
    "mdb_queue.taken": ["0"],
    "mdb_queue.terms": ["4102444800 other"],
    "mdb_queue.count": ["0"],
    "mdb_queue.lease": ["0"],
    "mdb_queue.step": ["1000000"],
    "mdb_queue.worker": ["other"],
}
QUEUES = ["orders", "limited"]
LIMIT = 5


@pytest.fixture
def dsn(pgmq_dsn: str) -> str:
    return pgmq_dsn


class World:
    """Two queues, one with a limit, and an internal one. Counts what should be there."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self.db = db
        # The same messages are given back again and again, and must not become dead letters.
        for name in ("orders", "penstock.internal"):
            db.execute("select penstock.create_queue(%s, '{\"max_attempts\": 100}')", [name])
        db.execute("select penstock.create_queue('limited', %s)", [f'{{"max_depth": {LIMIT}}}'])
        self.secret = self.value("select penstock.enqueue('penstock.internal', '\"secret\"')")
        self.native = self.value("select penstock.enqueue('orders', '\"held\"')")
        self.enqueued: set[int] = {self.native}
        self.settled: set[int] = set()
        self.errors: list[str] = []
        query = "select token from penstock.claim(%s, 1, 3600)"
        ids = dict(db.execute("select name, id from penstock.queue").fetchall())
        self.words = {
            **{name.replace("penstock.", ""): str(id) for name, id in ids.items()},
            "internal_token": str(self.value(query, "penstock.internal")),
            "native_token": str(self.value(query, "orders")),
            "claim_text": claim_by("w", 10, "orders"),
        }

    def value(self, query: str, *arguments: Any) -> Any:
        row = self.db.execute(query.encode(), arguments or None).fetchone()
        assert row is not None
        return row[0]

    @contextlib.contextmanager
    def noting_errors(self) -> Iterator[None]:
        """A session may make its own statements fail."""
        try:
            yield
        except psycopg.Error as error:
            self.errors.append(str(error))

    def enqueue(self, login: Login, call: str) -> None:
        """Counts what the session was told is enqueued."""
        with self.noting_errors():
            self.enqueued.update(row[0] for row in login.rows(f"select {call}"))

    def drain(self) -> set[int]:
        """What an honest consumer gets, until nothing is missing or a minute is over."""
        found: set[int] = set()
        deadline = time.monotonic() + 60
        while self.enqueued - self.settled - found - {self.native} and time.monotonic() < deadline:
            self.db.execute("select penstock.maintain(true)")
            for name in QUEUES:
                query = "select id, token from penstock.claim(%s, 100, 60)"
                for id, token in self.db.execute(query, [name]).fetchall():
                    assert id not in found | self.settled
                    found.add(id)
                    self.db.execute("select penstock.ack(%s, %s)", [id, token])
        return found


PRODUCES = [
    "penstock.enqueue('orders', '1')",
    "penstock.enqueue('orders', '2', group_key => 'g')",
    "penstock.enqueue('orders', '3', key => 'k' || txid_current())",
    "penstock.enqueue('orders', '4', priority => 3)",
    "penstock.enqueue('orders', '5', delay => interval '0.1 second')",
    "* from penstock.enqueue_many('orders', array['6', '7']::jsonb[])",
]


def produce(world: World, producer: Login, setting: str, value: str) -> None:
    for call in PRODUCES:
        producer.rows("select set_config(%s, %s, false)", setting, value)
        world.enqueue(producer, call)
        made: list[int] = []
        # And in a transaction with more to it, where work is left to the commit.
        with world.noting_errors(), producer.session.transaction():
            producer.rows("select")
            producer.rows("select set_config(%s, %s, true)", setting, value)
            made = [row[0] for row in producer.rows(f"select {call}")]
            producer.rows("select set_config(%s, %s, true)", setting, value)
        world.enqueued.update(made)


def exceed(producer: Login, setting: str, value: str) -> None:
    """Tries to get more into a queue than it takes, statement by statement and all at once."""
    for _ in range(LIMIT + 2):
        producer.rows("select set_config(%s, %s, false)", setting, value)
        with contextlib.suppress(psycopg.Error):
            producer.rows("select penstock.enqueue('limited', '0')")


def consume(world: World, consumer: Login, setting: str, value: str) -> None:
    """Settles or gives back what it gets, in every way that there is."""

    def attempt(*statements: str) -> None:
        with world.noting_errors(), consumer.session.transaction():
            for statement in statements:
                consumer.rows("select set_config(%s, %s, true)", setting, value)
                seen = consumer.rows(statement)
                assert "secret" not in str(seen)
                if "ack(" in statement:
                    settled.update(row[0] for row in seen)
        world.settled.update(settled)
        settled.clear()

    settled: set[int] = set()
    acked = "select c.id, penstock.ack(c.id, c.token) from penstock.claim('orders', 3, 1) c"
    given_back = (
        "select penstock.nack(c.id, c.token, null, interval '0') "
        "from penstock.claim('orders', 20, 1) c"
    )
    attempt("select 1", acked)
    attempt(given_back)
    attempt("select id, payload from mdb_queue.messages")
    attempt(
        claim_by("w", 2, "orders"),
        "update mdb_queue.messages set visible_at = now(), last_error = 'x' where claimed_by = 'w'",
    )
    # A setting that changes while the statement runs.
    changing = f"set_config('{setting}', $x${value}$x$, true)"
    text = claim_by("v", 2, "orders").replace("m.payload", f"m.payload, {changing}")
    attempt(
        text,
        "update mdb_queue.messages set visible_at = now(), last_error = 'x' where claimed_by = 'v'",
    )
    attempt("update mdb_queue.messages set visible_at = now() + interval '1 second'")


# Settings of PostgreSQL that every session may change, and that change what statements mean.
CORE = {
    "plpgsql.extra_errors": "all",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "quote_all_identifiers": "on",
    "bytea_output": "escape",
    "DateStyle": "ISO, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Pacific/Apia",
    "default_transaction_isolation": "serializable",
    "lock_timeout": "1ms",
}


Withstands = Callable[[list[tuple[str, str]]], World]


@pytest.fixture
def withstands(
    db: psycopg.Connection[Any], log_in: LogIn, rights: Callable[[str], Any]
) -> Withstands:
    """Has sessions work with each setting, and checks that no other role is affected."""

    def withstands(settings: list[tuple[str, str]]) -> World:
        world = World(db)
        producer, consumer = log_in("penstock_producer"), log_in("penstock_consumer")
        before = [rights(each.name) for each in (producer, consumer)]
        for setting, template in settings:
            value = template.format_map(world.words) if template.count("{") else template
            produce(world, producer, setting, value)
            exceed(producer, setting, value)
            depth = "select ready + scheduled + leased from penstock.stats('limited')"
            assert world.value(depth) <= LIMIT
            consume(world, consumer, setting, value)
            for login in (producer, consumer):
                login.rows(f"reset {setting}")
            # A group that another user uses, after the hostile ones have.
            another = "select penstock.enqueue('orders', '9', group_key => 'g')"
            world.enqueued.add(world.value(another))
        limited = db.execute("select id from penstock.messages where queue = 'limited'").fetchall()
        world.enqueued |= {row[0] for row in limited}
        assert world.drain() == world.enqueued - world.settled - {world.native}
        # The leases that others hold are as they were.
        held = "select id, state, worker from penstock.messages where state = 'leased' order by id"
        assert db.execute(held).fetchall() == [
            (world.secret, "leased", None),
            (world.native, "leased", None),
        ]
        assert [rights(each.name) for each in (producer, consumer)] == before
        return world

    return withstands


@pytest.mark.parametrize("setting", HOSTILE)
def test_a_setting_changes_nothing_for_others(withstands: Withstands, setting: str) -> None:
    withstands([(setting, value) for value in [*HOSTILE[setting], *ANYTHING]])


def test_without_a_hostile_setting_nothing_fails(withstands: Withstands) -> None:
    """The statements themselves are right: else the other tests would show nothing."""
    assert withstands([("application_name", "honest")] * 2).errors == []


def test_neither_does_a_setting_of_postgresql(
    withstands: Withstands,
) -> None:
    withstands(list(CORE.items()))


def test_a_producer_may_exceed_max_depth_by_one_transaction_at_most(
    db: psycopg.Connection[Any], log_in: LogIn
) -> None:
    """penstock.reserved tells others how much an open transaction was admitted: what a producer
    hides of it, they may enqueue too. Once it has committed, the limit holds again."""
    world = World(db)
    first, second = log_in("penstock_producer"), log_in("penstock_producer")
    with first.session.transaction():
        for _ in range(LIMIT):
            first.rows("select set_config('penstock.reserved', '', true)")
            first.rows("select penstock.enqueue('limited', '0')")
        with contextlib.suppress(psycopg.Error):
            for _ in range(LIMIT):
                second.rows("select penstock.enqueue('limited', '1')")
    depth = world.value("select ready from penstock.stats('limited')")
    assert depth <= 2 * LIMIT
    with pytest.raises(psycopg.Error, match="is full"):
        second.rows("select penstock.enqueue('limited', '2')")


def test_a_consumer_sees_no_internal_lease_through_the_settings_of_a_claim(
    db: psycopg.Connection[Any], log_in: LogIn
) -> None:
    world = World(db)
    consumer = log_in("penstock_consumer")
    for lane in (world.words["internal"], world.words["orders"]):
        for name, value in {
            "act": "claim 10",
            "lane": lane,
            "held": world.words["internal_token"],
        }.items():
            consumer.rows(f"select set_config('mdb_queue.{name}', %s, false)", value)
        assert consumer.rows("select * from mdb_queue._rows(%s, 'orders')", int(lane)) == []
        assert (
            consumer.rows("select * from mdb_queue._rows(%s, 'x')", int(world.words["internal"]))
            == []
        )


def test_a_consumer_cannot_leave_a_group_without_an_end(
    db: psycopg.Connection[Any], log_in: LogIn
) -> None:
    """The end of a group is left to the commit. If a caller could make it look announced, the group
    would no longer deliver a message."""
    world = World(db)
    consumer = log_in("penstock_consumer")
    world.value("select penstock.enqueue('orders', '1', group_key => 'g')")
    group = hashlib.md5(b"g").hexdigest()
    ends = "".join(f" end {world.words['orders']} {group} {n} " for n in range(1, 1000))
    with consumer.session.transaction():
        consumer.rows("select")
        consumer.rows("select set_config('penstock.announced', %s, true)", ends)
        taken = consumer.rows(
            "select c.id, penstock.ack(c.id, c.token) from penstock.claim('orders') c"
        )
        assert len(taken) == 1
    for n in range(3):
        made = world.value("select penstock.enqueue('orders', '2', group_key => 'g')")
        world.enqueued.add(made)
        assert world.drain() == {made}, n
        world.settled.add(made)
