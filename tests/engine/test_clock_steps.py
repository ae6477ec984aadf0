"""A server clock that is set wrong and right again leaves no message behind. The clock is the
server's own, stepped by libfaketime while it runs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.chaos.crew import faketime_library
from tests.conftest import FAST

from penstock.cli.program import run
from penstock.db.migrations import Migrator
from penstock.sql.expand import Expander
from penstock.worker import App, Delivery, Worker

from .conftest import Connect, Engine, durable_home, wait_for
from .faked_server import FakedServer, faked_server

pytestmark = [
    pytest.mark.skipif(
        faketime_library() is None,
        reason="libfaketime is not installed. As root: apt-get install faketime",
    ),
    pytest.mark.xdist_group("faked clock"),
]
HOUR, DAY = 3600, 86400
STEPS = [HOUR, -HOUR, DAY, -DAY]
# Where a register stands ahead, messages wait for the length of the step: an hour, or a day.
LIMIT = 20.0

# Every register that holds a time, and how far ahead of the clock it may be.
AHEAD = Expander().text("""
select r.name, r.us - date_part('epoch', clock_timestamp()) * 1e6 as ahead_us from (
  select 'tick_at' as name, last_value as us from penstock.tick_at
  union all select 'ring_check_at', last_value from penstock.ring_check_at
  union all select 'upkeep_at', last_value - {timing.upkeep} from penstock.upkeep_at
  union all select 'timer_rescan_at', last_value from penstock.timer_rescan_at
  union all select 'due_floor', last_value from penstock.due_floor
  union all select 'lease_floor', last_value from penstock.lease_floor
  union all select 'sweep', pg_sequence_last_value(sweep_register) from penstock.queue
  union all select 'rescan', pg_sequence_last_value(rescan_register) from penstock.queue
  union all select 'generation',
    {generation.began_ms(pg_sequence_last_value(generation_register))} * 1000 from penstock.queue
  union all select 'throughput', pg_sequence_last_value(throughput_register)
    from penstock.queue) r
where r.us > 0
""")


@pytest.fixture(scope="module")
def faked(pg_bin: Any) -> Iterator[FakedServer]:
    with durable_home() as home, faked_server(home, pg_bin, FAST) as server:
        yield server


@pytest.fixture
def dsn(faked: FakedServer, connect: Connect) -> Iterator[str]:
    """A fresh schema on the server whose clock is stepped; the clock is right again afterwards."""
    connection = connect(faked.dsn)
    connection.execute("drop schema if exists penstock, mdb_queue, pgmq cascade")
    Migrator(connection).up()
    yield faked.dsn
    faked.step(0)


@pytest.fixture
def clock_finding(dsn: str, capsys: pytest.CaptureFixture[str]) -> Callable[[], tuple[str, str]]:
    """What `penstock doctor` says of the clock."""

    def ask() -> tuple[str, str]:
        capsys.readouterr()
        run(["--json", "--dsn", dsn, "doctor"])
        checks = json.loads(capsys.readouterr().out)["checks"]
        found = next(check for check in checks if check["check"] == "clock")
        return found["status"], found["detail"]

    return ask


def work_for_a_while(engine: Engine) -> None:
    """Claims as workers do, until every register was set by the clock as it is now."""
    engine.value("select penstock.create_queue('busy', '{\"keep_history\": 0}', true)")
    engine.value("select penstock.create_queue('slow', '{\"throughput_limit\": 1000}', true)")

    def all_are_set() -> bool:
        for queue in ("busy", "slow"):
            engine.enqueue(queue)
            engine.ack(engine.claim(queue, 2))
        ahead = dict(engine.connection.execute(AHEAD).fetchall())
        recent = [us for us in ahead.values() if -5e6 < us < 5e6]
        return len(ahead) >= 10 and len(recent) == len(ahead)

    wait_for(all_are_set, "all registers set by the present clock", LIMIT)


def leave_messages(engine: Engine) -> set[int]:
    """Messages that must come back by themselves: leased in three ways, retried, delayed."""
    engine.create("work", '{"backoff": {"kind": "constant", "base_seconds": 1}}')
    engine.create("limited", '{"max_in_flight": 1000}')
    messages = set(engine.enqueue_many("work", 18))
    engine.enqueue("work", group_key="g")
    assert len(engine.claim("work", 17, lease_seconds=1)) == 17  # many: held in place
    (nacked,) = engine.claim("work", 1, lease_seconds=60)
    engine.value("select penstock.nack(%s, %s, 'later')", *nacked)
    ((grouped, token),) = engine.claim("work", 1, lease_seconds=60)
    engine.value("select penstock.nack(%s, %s, 'later')", grouped, token)
    few = set(engine.enqueue_many("limited", 2))
    assert len(engine.claim("limited", 2, lease_seconds=1)) == 2
    return messages | {grouped} | few


def drain(engine: Engine, messages: set[int]) -> float:
    """Claims and acks until all came; how long that took."""
    began, came = time.monotonic(), set()

    def all_came() -> bool:
        for queue in ("work", "limited"):
            leases = engine.claim(queue, 10)
            came.update(engine.ack(leases))
        return messages <= came

    wait_for(all_came, f"{messages} delivered", LIMIT)
    return time.monotonic() - began


@pytest.mark.parametrize("step", STEPS)
def test_what_was_leased_while_the_clock_was_wrong_comes_back_when_it_is_right(
    faked: FakedServer, engine: Engine, step: int
) -> None:
    faked.step(step)
    work_for_a_while(engine)
    messages = leave_messages(engine)
    faked.step(0)
    took = drain(engine, messages)
    print(f"step {step:+d} s: all came {took:.2f} s after the clock was right")
    work_for_a_while(engine)
    assert [name for name, us in engine.connection.execute(AHEAD) if us > 3e6] == []


@pytest.mark.parametrize("step", STEPS)
def test_what_was_leased_before_the_clock_was_wrong_comes_back_while_it_is(
    faked: FakedServer, engine: Engine, step: int
) -> None:
    work_for_a_while(engine)
    messages = leave_messages(engine)
    faked.step(step)
    drain(engine, messages)


@pytest.mark.parametrize("step", STEPS)
def test_maintain_alone_gives_messages_back(
    faked: FakedServer, engine: Engine, wait_for: Any, step: int
) -> None:
    faked.step(step)
    work_for_a_while(engine)
    messages = leave_messages(engine)
    faked.step(0)

    def all_are_ready() -> bool:
        engine.value("select penstock.maintain()")
        ready = "select count(*) from penstock.messages where state = 'ready'"
        return bool(engine.value(ready) >= len(messages))

    wait_for(all_are_ready, "all ready again", LIMIT)


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_goes_on_when_the_clock_is_right(
    faked: FakedServer, engine: Engine, dsn: str, step: int
) -> None:
    faked.step(step)
    work_for_a_while(engine)
    messages = leave_messages(engine)
    engine.create("live")
    app, waiting = App(), App()
    done: set[int] = set()

    @app.handler("work")
    @app.handler("limited")
    async def work(message: Delivery) -> None:
        done.add(message.id)

    @waiting.handler("live")
    async def live(message: Delivery) -> None:
        done.add(message.id)

    async def all_done(messages: set[int]) -> float:
        began = time.monotonic()
        while not messages <= done:
            assert time.monotonic() < began + LIMIT, messages - done
            await asyncio.sleep(0.005)
        return time.monotonic() - began

    async def play() -> None:
        async with Worker(waiting, dsn):
            await all_done({engine.enqueue("live") for _ in range(3)})
            faked.step(0)
            new = await all_done({engine.enqueue("live"), engine.enqueue("live", delay="1 s")})
            async with Worker(app, dsn):
                old = await all_done(messages)
        print(f"step {step:+d} s: new messages after {new:.2f} s, the others after {old:.2f} s")

    asyncio.run(play())


def test_a_schedule_that_fired_ahead_of_time_fires_again_in_time(
    faked: FakedServer, engine: Engine
) -> None:
    engine.create("work")
    engine.value("select penstock.create_schedule('minutely', 'work', '* * * * *')")
    faked.step(DAY)
    work_for_a_while(engine)
    engine.value("select fired from penstock.fire_schedules()")
    ahead = "select next_fire_at > clock_timestamp() + interval '61 seconds' from penstock.schedule"
    assert engine.value(ahead) is False
    faked.step(0)
    assert engine.value(ahead) is True
    engine.value("select penstock.maintain()")
    assert engine.value(ahead) is False


def test_a_lease_of_a_worker_that_lives_holds_when_the_clock_is_put_back(
    faked: FakedServer, engine: Engine
) -> None:
    faked.step(HOUR)
    work_for_a_while(engine)
    engine.create("work")
    engine.enqueue_many("work", 18)
    leases = engine.claim("work", 17, lease_seconds=600) + engine.claim("work", 1, 600)
    faked.step(0)
    assert engine.claim("work", 5) == []
    engine.value("select penstock.maintain()")
    left = """
        select bool_and(date_part('epoch', lease_until - clock_timestamp()) between 500 and 601)
        from penstock.messages where state = 'leased'"""
    assert engine.value(left) is True
    assert engine.ack(leases) == {id for id, _ in leases}


def test_a_worker_that_beat_while_the_clock_ran_ahead_is_not_alive_for_that_long(
    faked: FakedServer, engine: Engine
) -> None:
    faked.step(HOUR)
    engine.value("select penstock.beat('gone', 'running', clock_timestamp(), '{}')")
    assert engine.value("select alive from penstock.heartbeats") is True
    faked.step(0)
    assert engine.value("select alive from penstock.heartbeats") is False


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (HOUR, "60 min ahead of"),
        (-HOUR, "60 min behind"),
        (DAY, "24 h ahead"),
        (-DAY, "24 h behind"),
    ],
)
def test_doctor_names_the_step_while_it_lasts(
    faked: FakedServer, engine: Engine, clock_finding: Any, step: int, said: str
) -> None:
    assert clock_finding()[0] == "ok"
    faked.step(step)
    work_for_a_while(engine)
    status, detail = clock_finding()
    assert status == "warning"
    assert said in detail
    faked.step(0)
    if step > 0:
        # Nothing has claimed since: registers still stand ahead.
        status, detail = clock_finding()
        assert status == "warning"
        assert "was put back by" in detail
    work_for_a_while(engine)
    assert clock_finding() == (
        "ok",
        "the server's clock agrees with the clock of this machine",
    )
