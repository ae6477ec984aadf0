"""Messages that a claim leases in place: they are found by their location, and none is lost."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.held import RUN_OUT, hold_from

import penstock
from penstock.sql.expand import Expander

SQL = Path(penstock.__file__).parent / "sql"


def rows(engine: Any, kind: str) -> int:
    """How many rows there are in the tables or views of a kind, in all segments."""
    return sum(engine.value(f"select count(*) from penstock.{kind}_{n}") for n in range(9))


@pytest.fixture
def held(engine: Any) -> list[Any]:
    """Twenty leases that one claim holds."""
    engine.create("work")
    engine.enqueue_many("work", 20)
    return list(engine.claim("work", 20, 600))


def test_many_at_once_are_held_and_a_few_move(engine: Any) -> None:
    hold_from(engine.connection, 2)
    engine.create("work")
    engine.enqueue_many("work", 50)
    engine.claim("work", 1)
    assert (rows(engine, "held"), rows(engine, "leased"), rows(engine, "grant")) == (0, 1, 0)
    engine.claim("work", 30)
    assert (rows(engine, "held"), rows(engine, "leased"), rows(engine, "grant")) == (30, 1, 1)


@pytest.mark.parametrize("seconds", [1, 30, 43200])
@pytest.mark.parametrize("history", [0, 3600])
def test_what_a_lease_says_is_what_is_stored(engine: Any, seconds: int, history: int) -> None:
    engine.create("work", f'{{"keep_history": {history}}}')
    engine.enqueue_many("work", 20)
    before = engine.value("select clock_timestamp()")
    handed_out = engine.connection.execute(
        "select id, token, lease_until from penstock.claim('work', 20, %s, 'me')", [seconds]
    ).fetchall()
    after = engine.value("select clock_timestamp()")
    held = "select id, token, lease_until from penstock.held_1 order by id"
    assert engine.connection.execute(held).fetchall() == sorted(handed_out)
    logged = Expander().text(
        "select distinct {token.leaves_history(t)} from unnest(%s::bigint[]) t"
    )
    tokens = [token for _, token, _ in handed_out]
    assert engine.connection.execute(logged, [tokens]).fetchall() == [(history > 0,)]
    [row] = engine.connection.execute(
        "select distinct worker, claimed_at, lease_until, first_claimed_at from penstock.held_1"
    ).fetchall()
    worker, claimed_at, lease_until, first_claimed_at = row
    assert worker == "me"
    assert first_claimed_at == claimed_at
    assert lease_until - claimed_at == timedelta(seconds=seconds)
    assert before <= claimed_at <= after


def test_a_claim_that_holds_touches_no_index(engine: Any) -> None:
    engine.create("work")
    engine.enqueue_many("work", 2000)
    while leases := engine.claim("work", 100):
        assert len(engine.ack(leases)) == 100
    engine.value("select pg_stat_force_next_flush()")
    engine.value("select 1")
    found = engine.connection.execute(
        "select sum(n_tup_upd), sum(n_tup_hot_upd) from pg_stat_user_tables"
        " where relname like 'lane%'"
    ).fetchone()
    assert found == (2000, 2000)


def test_leases_come_in_the_order_of_their_positions(engine: Any, caller: Any) -> None:
    """Enqueuers side by side fill different pages, so the rows do not lie in that order."""
    engine.create("work")
    others = [caller() for _ in range(3)]
    for _ in range(40):
        for other in others:
            other.enqueue("work", '"' + "x" * 300 + '"')
    ids = [message for message, _ in engine.claim("work", 120)]
    assert ids == sorted(ids)
    assert len(ids) == 120


def test_the_right_id_with_another_token_settles_nothing(engine: Any, held: list[Any]) -> None:
    (first, token), (second, other), *_ = held
    assert engine.ack([(first, other)]) == set()
    assert engine.ack([(12345, token)]) == set()
    later = "({token.in_place_from(2::bigint)} - {token.in_place_from(0::bigint)})"
    late = engine.value(Expander().text(f"select %s::bigint + {later}"), token)
    assert engine.ack([(first, late)]) == set(), "a lease that ends at another time"
    assert engine.ack([(first, token + 1)]) == set(), "another segment"
    assert rows(engine, "held") == 20
    assert engine.ack([(first, token), (second, other)]) == {first, second}
    assert engine.ack([(first, token)]) == set(), "once is enough"


@pytest.mark.parametrize("count", [1, 20])
def test_a_lease_is_held_until_it_is_settled_or_expires(
    engine: Any, wait_for: Any, count: int
) -> None:
    def held(leases: list[Any]) -> set[int]:
        ids, tokens = ([each[n] for each in leases] for n in (0, 1))
        query = "select * from penstock.held_leases(%s::bigint[], %s::bigint[])"
        return {id for (id,) in engine.connection.execute(query, [ids, tokens])}

    engine.create("work", "{}")
    engine.enqueue_many("work", 2 * count)
    long, short = engine.claim("work", count, 600), engine.claim("work", count, 1)
    assert held(long) == {id for id, _ in long}
    assert held([(id, token + 32) for id, token in long]) == set(), "another claim"
    engine.connection.execute("select penstock.extend(%s, %s)", long[0])
    assert held(long) == {id for id, _ in long}, "also after an extension"
    engine.connection.execute("select penstock.nack(%s, %s, null, '0')", long[0])
    assert held(long) == {id for id, _ in long[1:]}
    [again] = engine.claim("work", 1, 600)
    assert held([again]) == {again[0]}
    wait_for(lambda: held(short) == set(), "the end of the leases")


@pytest.mark.parametrize("history", [0, 3600])
def test_a_lease_that_ran_out_settles_nothing_though_nobody_took_it(
    engine: Any, wait_for: Any, history: int
) -> None:
    engine.create("work", f'{{"keep_history": {history}}}')
    engine.enqueue_many("work", 30)
    one, other = engine.claim("work", 20, 1), engine.claim("work", 10, 1)
    over = "select clock_timestamp() > max(lease_until) from penstock.held_1"
    wait_for(lambda: engine.value(over), "the end of the leases")
    for leases in (one, one + other, one[:1]):
        assert engine.ack(leases) == set()
    with pytest.raises(psycopg.errors.DatabaseError, match="lease"):
        engine.connection.execute("select penstock.ack(%s, %s)", one[0])
    ids, tokens = ([each[n] for each in one] for n in (0, 1))
    for act in ("extend_many(%s, %s)", "nack_many(%s, %s)"):
        assert engine.connection.execute(f"select penstock.{act}", [ids, tokens]).fetchall() == []
    assert rows(engine, "held") == 30


@pytest.mark.parametrize("how", ["one", "many", "more than a claim"])
def test_acks_settle_what_is_held(engine: Any, held: list[Any], how: str) -> None:
    if how == "one":
        for lease in held:
            engine.connection.execute("select penstock.ack(%s, %s)", lease)
    elif how == "many":
        assert len(engine.ack(held)) == 20
    else:
        engine.enqueue_many("work", 3)
        moved = engine.claim("work", 1)
        assert len(engine.ack(held + moved + engine.claim("work", 2))) == 23
    assert rows(engine, "lane") + rows(engine, "leased") == 0


def test_history_knows_who_held_a_message_and_since_when(engine: Any) -> None:
    engine.create("work", '{"keep_history": 1}')
    engine.enqueue_many("work", 3)
    claimed = "select id, token from penstock.claim('work', 3, worker => 'mailer')"
    leases = engine.connection.execute(claimed).fetchall()
    since = engine.connection.execute(
        "select distinct worker, claimed_at, attempt, state from penstock.messages"
    ).fetchall()
    assert [(row[0], row[2], row[3]) for row in since] == [("mailer", 1, "leased")]
    assert engine.value("select leased from penstock.workers where worker = 'mailer'") == 3
    assert len(engine.ack(leases)) == 3
    logged = engine.connection.execute(
        "select distinct worker, last_claimed_at, attempts from penstock.history"
    ).fetchall()
    assert logged == [("mailer", since[0][1], 1)]


def test_an_extended_lease_moves_and_keeps_its_token(engine: Any, held: list[Any]) -> None:
    extend = "select penstock.extend(%s, %s, 900) > clock_timestamp() + interval '880 s'"
    assert engine.value(extend, *held[0])
    assert engine.value(extend, *held[0]), "and again, where it is now"
    assert (rows(engine, "held"), rows(engine, "leased")) == (19, 1)
    assert len(engine.ack(held)) == 20


def test_what_ran_out_comes_back_and_its_grant_goes(engine: Any, held: list[Any]) -> None:
    engine.ack(held[:5])
    engine.connection.execute(RUN_OUT)
    assert engine.ack(held) == set(), "too late"
    again = engine.claim("work", 20)
    assert sorted(id for id, _ in again) == [id for id, _ in held[5:]]
    assert rows(engine, "grant") == 0
    attempts = "select array_agg(distinct attempt) from penstock.messages"
    assert engine.value(attempts) == [2]


def test_a_claim_takes_over_no_more_than_it_wants(engine: Any, held: list[Any]) -> None:
    """Other expired leases stay available to all consumers during this transaction."""
    engine.connection.execute(RUN_OUT)
    with engine.connection.transaction():
        assert len(engine.claim("work", 3)) == 3
        lapsed = "select count(*) from penstock.held_1 where lease_until < now()"
        assert engine.value(lapsed) == 17
    assert len(engine.claim("work", 20)) == 17


def test_who_has_some_does_not_look_each_time_for_what_ran_out(
    engine: Any, held: list[Any]
) -> None:
    engine.connection.execute(RUN_OUT)
    new = engine.enqueue_many("work", 1)
    # As if others had looked within the last 5 ms.
    soon = "(extract(epoch from now()) * 1e6)::bigint + 900000 & ~1::bigint"
    engine.value(f"select setval('penstock.sweep_1', {soon})")
    assert [id for id, _ in engine.claim("work", 30)] == new
    assert {id for id, _ in engine.claim("work", 30)} == {id for id, _ in held}


def test_grants_that_hold_nothing_are_forgotten_in_time(engine: Any, held: list[Any]) -> None:
    engine.ack(held)
    assert rows(engine, "grant") == 1
    engine.connection.execute(RUN_OUT)
    engine.value("select penstock.maintain(true)")
    assert rows(engine, "grant") == 0


@pytest.mark.parametrize("what", ["vacuum full penstock.lane_1", "cluster penstock.lane_1"])
def test_leases_are_lost_with_their_places_and_messages_are_not(
    engine: Any, held: list[Any], what: str
) -> None:
    engine.ack(held[::2])
    if "cluster" in what:
        what += " using lane_1_order"
    engine.connection.execute(what)
    kept = {id for id, _ in held[1::2]}
    assert len(engine.ack(held[1::2])) < 10, "they are not where their tokens say"
    left = rows(engine, "held")
    engine.connection.execute(RUN_OUT)
    again = {id for id, _ in engine.claim("work", 20)}
    assert again <= kept
    assert len(again) == left


def test_long_leases_move_to_the_overflow_segment_and_are_settled_there(
    engine: Any, held: list[Any]
) -> None:
    engine.connection.execute(
        "update penstock.grant_1 set claimed_at = claimed_at - interval '10 s'"
    )
    tokens = engine.connection.execute("select id, token from penstock.held_1").fetchall()
    engine.value("select penstock._clear_oldest(1)")
    assert (rows(engine, "held"), engine.value("select count(*) from penstock.leased_0")) == (0, 20)
    assert len(engine.ack(tokens)) == 20


def test_a_limit_on_what_is_in_flight_counts_what_was_held_before(
    engine: Any, held: list[Any]
) -> None:
    engine.enqueue_many("work", 5)
    engine.value("select penstock.set_queue('work', '{\"max_in_flight\": 21}')")
    assert len(engine.claim("work", 5)) == 1
    assert len(engine.ack(held)) == 20
    assert len(engine.claim("work", 5)) == 4


def test_what_is_held_is_counted_found_and_cancelled(engine: Any, held: list[Any]) -> None:
    engine.enqueue_many("work", 2)
    stats = "select array[ready, leased] from penstock.{}"
    assert engine.value(stats.format("stats('work')")) == [2, 20]
    assert engine.value(stats.format("all_stats()")) == [2, 20]
    first = held[0][0]
    assert engine.value("select state from penstock.find_message(%s)", first) == "leased"
    assert engine.value("select penstock.cancel(%s)", first) == "leased"
    assert engine.ack(held[:1]) == set()
    assert engine.value("select penstock.purge('work', true)") == 21
    assert rows(engine, "lane") == 0


def test_each_token_settles_its_own_message_where_those_of_several_claims_come_together(
    engine: Any,
) -> None:
    engine.create("work")
    engine.enqueue_many("work", 40)
    one, two = engine.claim("work", 20, 600), engine.claim("work", 20, 600)
    pairs = [one[0], *((mine[0], other[1]) for mine, other in zip(one[1:], two[1:], strict=True))]
    assert engine.ack(pairs) == {one[0][0]}
    assert rows(engine, "held") == 39
    assert engine.ack([*one[1:], *two]) == {lease[0] for lease in [*one[1:], *two]}
    assert rows(engine, "lane") == 0


def test_an_expired_claim_gives_back_only_its_own_messages(
    engine: Any, other: Any, wait_for: Any
) -> None:
    """The range of positions of one claim may include messages that another claim holds."""
    engine.create("work")
    ids = engine.enqueue_many("work", 6)
    other.claim("work", 2)
    kept = engine.claim("work", 2, 600)
    other.connection.rollback()
    expiring = [ids[0], ids[1], ids[4], ids[5]]
    assert [id for id, _ in engine.claim("work", 4, 1)] == expiring
    came: set[int] = set()

    def all_came() -> bool:
        came.update(id for id, _ in engine.claim("work", 10, 600))
        return came >= set(expiring)

    wait_for(all_came, "the messages of the expired claim come back")
    assert came == set(expiring)
    assert engine.ack(kept) == {ids[2], ids[3]}


def test_the_first_messages_of_a_database_are_leased_while_they_are_enqueued(engine: Any) -> None:
    """A claim may read the last position before any was taken, and find messages after that."""
    engine.create("work")
    assert engine.claim("work", 3) == []
    engine.enqueue_many("work", 3)
    # As if none was taken, and the next sweep were not due yet.
    engine.value("select setval('penstock.position', 4, false), setval('penstock.floor_1_0', 0)")
    engine.value(
        "select setval('penstock.sweep_1', (date_part('epoch', clock_timestamp()) * 1e6)::bigint"
        " + 900000)"
    )
    assert len(engine.claim("work", 3)) == 3
