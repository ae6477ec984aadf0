"""Messages in pages: each is shown once, in its state, after any history."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.engine.conftest import wait_for

from penstock import Client
from penstock.commands import read
from penstock.commands.read import browse
from penstock.errors import InvalidValueError
from penstock.model.message_page import MessageFilter, MessageRow

LIVE = ("ready", "scheduled", "leased", "dead")
BOTH = ["alpha", "beta"]
QUEUES = (None, ["alpha"], BOTH)


def walk(run: Any, state: Any, *arguments: Any, page: int, **options: Any) -> list[MessageRow]:
    found: list[MessageRow] = []
    place = None
    while True:
        seen = run(browse(state, *arguments, page=page, place=place, **options))
        assert len(seen.rows) <= page
        found += seen.rows
        if seen.next is None:
            return found
        place = seen.next


@pytest.mark.usefixtures("zoo")
def test_pages_show_each_message_of_a_state_once(run: Any, db: psycopg.Connection[Any]) -> None:
    # A dead letter in work is shown among the dead: that is where it goes back to.
    rows = db.execute(
        "select id, coalesce(original_queue, queue), "
        "case when dead_at is null then state else 'dead' end from penstock.messages"
    ).fetchall()
    for state, queues, page in itertools.product(LIVE, QUEUES, (1, 2, 5, 100)):
        wanted = [id for id, queue, is_now in rows if is_now == state and queue in (queues or BOTH)]
        shown = [row.id for row in walk(run, state, queues, page=page)]
        assert len(wanted) > 0
        assert sorted(shown) == sorted(wanted)


@pytest.mark.usefixtures("zoo")
def test_finished_messages_are_shown_once_the_latest_first(
    run: Any, db: psycopg.Connection[Any]
) -> None:
    for page in (1, 3, 100):
        shown = walk(run, "finished", page=page)
        (count,) = db.execute("select count(*) from penstock.history").fetchone() or (0,)
        assert len({row.id for row in shown}) == len(shown) == count > 0
        assert {row.state for row in shown} == {"done", "cancelled"}
        assert shown[0].queue == "beta"
        assert {row.state for row in walk(run, "cancelled", ["alpha"], page=page)} == {"cancelled"}


@pytest.mark.usefixtures("zoo")
def test_ready_messages_come_in_the_order_of_delivery(run: Any, client: Client) -> None:
    rows = walk(run, "ready", ["beta"], page=4)
    in_lanes = [row.id for row in rows if row.place.startswith("lanes/")]
    # The others, due or of a group or with an expired lease, take their places at a claim.
    delivered = [lease.id for lease in client.claim("beta", 100) if lease.id in in_lanes]
    assert delivered == in_lanes


@pytest.mark.usefixtures("zoo")
def test_filters_by_key_error_worker_and_age(run: Any) -> None:
    def ids(state: Any, **filter: Any) -> set[str | None]:
        return {row.key for row in walk(run, state, None, MessageFilter(**filter), page=3)}

    assert ids("ready", key="alpha-9") == {"alpha-9"}
    assert ids("scheduled", key="later") == {"later"}
    assert len(walk(run, "scheduled", None, MessageFilter(key="later"), page=1)) == 2
    assert ids("ready", key="nobody") == set()
    assert ids("ready", error="broke: 17") == {"alpha-1", "beta-1"}
    assert ids("ready", error="%") == set()
    assert len(ids("leased", worker="busy")) == 2 * 2
    assert len(walk(run, "dead", None, MessageFilter(error="no good"), page=2)) == 4
    past = datetime.now(UTC) - timedelta(hours=1)
    assert ids("ready", enqueued_before=past) == set()
    assert ids("ready", enqueued_after=past) != set()


def test_a_look_ends_where_it_was_told_to_and_goes_on_from_there(run: Any, client: Client) -> None:
    client.create_queue("long")
    for n in range(50):
        client.enqueue("long", n, key="wanted" if n == 40 else None, headers={"n": n})
    wanted = MessageFilter(error="nothing has failed")
    seen = run(browse("ready", ["long"], wanted, look=20))
    assert (seen.rows, seen.looked) == ([], 20)
    assert seen.next is not None
    assert walk(run, "ready", ["long"], wanted, page=10, look=20) == []


@pytest.mark.usefixtures("zoo")
@pytest.mark.parametrize("place", ["x", "lanes/", "lanes/alpha", "lanes/alpha z z", "leased/1 2"])
def test_a_place_that_is_none_is_refused_or_begins_at_the_beginning(run: Any, place: str) -> None:
    if place in ("lanes/", "lanes/alpha"):
        assert run(browse("ready", place=place)).rows
    else:
        with pytest.raises(InvalidValueError, match="place"):
            run(browse("ready", place=place))


@pytest.mark.parametrize("place", ["x", "scheduled/", "scheduled/zz", "x/(0,0)", "history/(1e9,0)"])
def test_a_search_from_a_place_that_does_not_exist_is_refused(run: Any, place: str) -> None:
    with pytest.raises(InvalidValueError, match="place"):
        run(read.search("a", place=place))


@pytest.mark.usefixtures("zoo")
def test_a_message_is_found_by_its_id_in_every_state(
    run: Any, client: Client, db: psycopg.Connection[Any]
) -> None:
    """As the view shows it, column by column."""
    ids = [id for (id,) in db.execute("select id from penstock.messages").fetchall()]
    columns = (
        "id, queue, state, payload, payload_bytes, headers, key, priority, group_key, attempt, "
        "max_attempts, enqueued_at, visible_at, expires_at, first_claimed_at, claimed_at, "
        "lease_until, worker, last_error, dead_at, original_queue"
    )
    query = f"select {columns} from penstock.messages where id = %s"
    for id in ids:
        shown = db.execute(query, [id]).fetchall()
        found = db.execute(f"select {columns} from penstock.find_message(%s)", [id]).fetchall()
        assert found == shown
    assert db.execute("select * from penstock.find_message(999999)").fetchall() == []


@pytest.mark.usefixtures("zoo")
def test_what_dead_letters_died_of_is_counted(run: Any, client: Client) -> None:
    found = run(read.dead_errors("alpha"))
    assert sum(each.count for each in found) == 1
    assert all(each.error.startswith("no good: ") for each in found)
    assert {each.queue for each in run(read.dead_errors())} == {"alpha", "beta"}


@pytest.mark.usefixtures("zoo")
def test_what_finished_lately_is_counted_by_queue(run: Any) -> None:
    found = {(pace.queue, pace.state): pace for pace in run(read.recent(seconds=300))}
    assert found["alpha", "done"].count == 3
    assert found["alpha", "cancelled"].seconds == 300
    failed = {pace.queue: pace.count for pace in run(read.recent_attempts())}
    assert failed == {"alpha": 4, "beta": 4}


@pytest.mark.usefixtures("zoo")
def test_storage_horizon_and_heartbeats_can_be_read(run: Any) -> None:
    storage = run(read.storage())
    assert [segment["state"] for segment in storage["segments"]].count("current") == 1
    assert len(storage["segments"]) == 9
    assert storage["history"][0]["history_bytes"] > 0
    assert "dead" in {table["name"] for table in storage["tables"]}
    assert run(read.heartbeats()) == []
    # Autovacuum looks in now and then.
    wait_for(lambda: run(read.horizon()) == [], "no session holds the horizon back")
    assert run(read.server())["version_number"] >= 150000
