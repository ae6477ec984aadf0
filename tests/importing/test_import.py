"""`penstock import`: every message is imported once, also after failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from penstock.importing import Mover, PgmqSource, TableSource

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]
Import = Callable[..., Any]


def values(connection: Connection, query: str, *arguments: Any) -> list[Any]:
    return [row[0] for row in connection.execute(query, arguments)]


def send(source: Connection, count: int, more: str = "") -> list[int]:
    query = f"""select pgmq.send('jobs', jsonb_build_object('n', n){more})
                from generate_series(1, %s) n"""
    return values(source, query, count)


def numbers(target: Connection, queue: str = "jobs") -> list[int]:
    query = "select (payload ->> 'n')::integer from penstock.messages where queue = %s order by id"
    return values(target, query, queue)


def ledger(target: Connection) -> int:
    return int(values(target, "select count(*) from penstock.import_row")[0])


def test_a_pgmq_queue_comes_over_whole(
    bring: Import, source: Connection, source_dsn: str, target: Connection
) -> None:
    send(source, 25)
    answer = bring("pgmq", "Jobs", "--from", source_dsn, "--batch", "10")
    assert (answer.code, answer.out) == (0, {"queue": "jobs", "moved": 25, "held": 0})
    assert numbers(target) == list(range(1, 26)), "in their order"
    assert values(source, "select count(*) from pgmq.q_jobs") == [0]
    assert ledger(target) == 0
    assert bring("pgmq", "Jobs", "--from", source_dsn).out["moved"] == 0


def test_what_a_message_carries_comes_with_it(
    bring: Import, source: Connection, source_dsn: str, target: Connection
) -> None:
    source.execute("""select pgmq.send('jobs', '{"big": 12345678901234567890.123456789}',
                                       '{"trace": "x"}'::jsonb, 3600)""")
    source.execute("select pgmq.send('jobs', '1', '[1]'::jsonb)")
    source.execute("select pgmq.send('jobs', null)")
    assert bring("pgmq", "Jobs", "--from", source_dsn, "--to", "other").out["moved"] == 3
    query = """select payload::text, headers, visible_at > now() + interval '50 minutes'
               from penstock.messages where queue = 'other' order by id"""
    assert target.execute(query).fetchall() == [
        ('{"big": 12345678901234567890.123456789}', {"trace": "x"}, True),
        ("1", {"headers": [1]}, False),
        ("null", None, False),
    ]


def test_what_somebody_reads_is_left_to_them(
    bring: Import, source: Connection, source_dsn: str, target: Connection
) -> None:
    ids = send(source, 5)
    source.execute("select pgmq.read('jobs', 600, 2)")
    answer = bring("pgmq", "Jobs", "--from", source_dsn)
    assert answer.out == {"queue": "jobs", "moved": 3, "held": 2}
    assert numbers(target) == [3, 4, 5]
    source.execute("select pgmq.delete('jobs', %s)", [ids[0]])
    source.execute("select pgmq.set_vt('jobs', %s::bigint, 0)", [ids[1]])
    answer = bring("pgmq", "Jobs", "--from", source_dsn, "--wait")
    assert answer.out == {"queue": "jobs", "moved": 1, "held": 0}
    assert sorted(numbers(target)) == [2, 3, 4, 5]


def test_from_the_same_database(
    connect: Connect, source_dsn: str, bring: Import, capsys: Any
) -> None:
    here = connect(source_dsn)
    send(here, 5)
    from penstock.db.migrations import Migrator

    Migrator(here).up()
    assert bring("pgmq", "jobs", into=source_dsn).out["moved"] == 5
    assert numbers(here) == [1, 2, 3, 4, 5]


class StopError(Exception):
    """The machine lost power."""


@pytest.mark.parametrize("at", ["remove", "commit", "clear"])
@pytest.mark.parametrize("kind", ["pgmq", "table"])
def test_cut_off_anywhere_it_goes_on_and_brings_nothing_twice(
    kind: str, at: str, source: Connection, source_dsn: str, connect: Connect, target: Connection
) -> None:
    send(source, 30)
    source.execute("create table jobs as select n as id, n from generate_series(1, 30) n")
    elsewhere, into = connect(source_dsn), connect()

    def opened(connection: Connection) -> Any:
        if kind == "pgmq":
            return PgmqSource(connection, "jobs")
        return TableSource(connection, "jobs", key="id")

    def stop(*_: Any, **__: Any) -> None:
        raise StopError

    mover = Mover(into, "jobs", opened(elsewhere), elsewhere, batch=10)
    mover.prepare()
    if at == "remove":
        mover.source.remove = stop  # type: ignore[method-assign]
    elif at == "commit":
        remove = mover.source.remove

        def remove_and_stop(keys: Any) -> None:
            remove(keys)
            stop()

        mover.source.remove = remove_and_stop  # type: ignore[method-assign]
    else:
        run = mover._run
        mover._run = (  # type: ignore[method-assign]
            lambda name, **parameters: stop() if name == "clear" else run(name, **parameters)
        )
    with pytest.raises(StopError):
        mover.run()
    assert numbers(target) == list(range(1, 11))
    assert ledger(target) == 10

    again = Mover(into, "jobs", opened(elsewhere), elsewhere, batch=7)
    again.prepare()
    assert again.run().moved == 20
    assert numbers(target) == list(range(1, 31))
    assert ledger(target) == 0
    assert opened(elsewhere).count() == 0


def test_killed_in_the_middle_nothing_is_lost(
    source: Connection, source_dsn: str, dsn: str, target: Connection
) -> None:
    count = 3000
    send(source, count)
    command = [sys.executable, "-m", "penstock.cli", "import", "pgmq", "jobs"]
    command += ["--from", source_dsn, "--dsn", dsn, "--batch", "5"]
    kills = 0
    while values(source, "select count(*) from pgmq.q_jobs") != [0]:
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        before = len(numbers(target))
        while running.poll() is None and len(numbers(target)) < before + 200:
            time.sleep(0.005)
        if running.poll() is None:
            os.kill(running.pid, signal.SIGKILL)
            kills += 1
        running.wait()
    assert kills > 0
    assert sorted(numbers(target)) == list(range(1, count + 1)), f"after {kills} kills"


def test_producers_need_not_stop(
    bring: Import, source: Connection, source_dsn: str, connect: Connect, target: Connection
) -> None:
    """Late commits, with ids lower than those that were brought already, come too."""
    late = connect(source_dsn, autocommit=False)
    late.execute("select pgmq.send('jobs', '{\"n\": 0}')")
    send(source, 5)
    assert bring("pgmq", "jobs", "--from", source_dsn).out["moved"] == 5
    late.commit()
    assert bring("pgmq", "jobs", "--from", source_dsn).out["moved"] == 1
    assert sorted(numbers(target)) == [0, 1, 2, 3, 4, 5]


def make_jobs(source: Connection) -> None:
    source.execute("create schema app")
    source.execute("""create table app."Jobs" (
        id uuid primary key default gen_random_uuid(), kind text, args jsonb, raw bytea,
        prio integer, run_at timestamptz, meta jsonb, status text default 'todo')""")
    source.execute("""insert into app."Jobs" (kind, args, raw, prio, run_at, meta, status)
        select 'mail', jsonb_build_object('n', n), '\\x00ff', mod(n, 3),
               now() + n * interval '1 hour', '{"trace": "t"}',
               case when n <= 8 then 'todo' else 'done' end
        from generate_series(1, 10) n""")


def test_a_table_comes_over_by_its_columns(
    bring: Import, source: Connection, source_dsn: str, target: Connection
) -> None:
    make_jobs(source)
    answer = bring(
        *("table", 'app."Jobs"', "--from", source_dsn, "--to", "mails", "--batch", "3"),
        *("--payload", "args", "--headers", "meta", "--priority", "prio"),
        *("--visible-at", "run_at", "--where", "status = 'todo' and kind like 'm%'"),
    )
    assert (answer.code, answer.out) == (0, {"queue": "mails", "moved": 8, "held": 0})
    query = """select count(*), count(distinct payload), array_agg(distinct headers ->> 'trace'),
                      array_agg(distinct priority), bool_and(state = 'scheduled')
               from penstock.messages where queue = 'mails'"""
    assert target.execute(query).fetchone() == (8, 8, ["t"], [0, 1, 2], True)
    assert values(source, 'select status from app."Jobs"') == ["done", "done"]


def test_a_row_is_a_message_unless_told_otherwise(
    bring: Import, source: Connection, source_dsn: str, target: Connection
) -> None:
    source.execute("create table plain (a integer primary key, b text)")
    source.execute("insert into plain values (1, 'x'), (2, null)")
    assert bring("table", "plain", "--from", source_dsn, "--to", "rows").out["moved"] == 2
    query = "select payload from penstock.messages where queue = 'rows' order by id"
    assert values(target, query) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_bytes_stay_bytes(
    bring: Import, source: Connection, source_dsn: str, target: Connection
) -> None:
    make_jobs(source)
    call = ("table", 'app."Jobs"', "--from", source_dsn, "--to", "raw", "--payload", "raw")
    assert bring(*call).out["moved"] == 10
    assert set(values(target, "select payload_bytes from penstock.messages")) == {b"\x00\xff"}


def test_kept_rows_are_brought_once(
    bring: Import, source: Connection, source_dsn: str, target: Connection
) -> None:
    source.execute("create table kept (n integer primary key)")
    source.execute("insert into kept select generate_series(1, 25)")
    call = ("table", "kept", "--from", source_dsn, "--to", "jobs", "--keep", "--batch", "10")
    assert bring(*call).out["moved"] == 25
    source.execute("insert into kept values (0), (26)")
    assert bring(*call).out["moved"] == 2
    assert sorted(numbers(target)) == list(range(27))
    assert values(source, "select count(*) from kept") == [27]


def test_a_row_that_cannot_come_is_named_and_stays(
    bring: Import, source: Connection, source_dsn: str, target: Connection
) -> None:
    source.execute("create table odd (n integer primary key, prio integer)")
    source.execute(
        "insert into odd select n, case n when 7 then 99 else 0 end from generate_series(1, 10) n"
    )
    call = ("table", "odd", "--from", source_dsn, "--to", "jobs", "--priority", "prio")
    answer = bring(*call)
    assert (answer.code, answer.out) == (2, None)
    assert "row 7 cannot be enqueued: priority is '99'" in answer.err
    assert numbers(target) == [1, 2, 3, 4, 5, 6]
    assert values(source, "select n from odd order by n") == [7, 8, 9, 10]
    source.execute("update odd set prio = 1")
    assert bring(*call).out["moved"] == 4
    assert sorted(numbers(target)) == list(range(1, 11))


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["pgmq", "none"], "no PGMQ queue 'none'"),
        (["table", "none", "--to", "jobs"], "no table 'none'"),
        (["table", "keyless", "--to", "jobs"], "no primary key of one column"),
        (["table", "keyless", "--to", "jobs", "--key", "b"], "no column 'b'"),
        (["table", "keyless", "--to", "jobs", "--key", "a", "--payload", "x"], "It has: a."),
        (["table", "keyless", "--to", "jobs", "--key", "a", "--where", "b ="], "syntax error"),
        (["table", "keyless", "--to", "No Queue", "--key", "a"], "not a valid queue name"),
        (["table", "keyless", "--to", "x.dlq", "--key", "a"], "reserved"),
        (["table", "keyless"], "--to"),
        (["pgmq", "jobs", "--batch", "0"], "--batch"),
        (["pgmq"], "NAME"),
    ],
)
def test_bad_input_moves_nothing(
    bring: Import, source: Connection, source_dsn: str, argv: list[str], complaint: str
) -> None:
    source.execute("create table keyless (a integer)")
    source.execute("insert into keyless values (1)")
    send(source, 1)
    answer = bring(*argv, "--from", source_dsn)
    assert (answer.code, answer.out) == (2, None)
    assert complaint in answer.err
    assert values(source, "select count(*) from keyless") == [1]
    assert values(source, "select count(*) from pgmq.q_jobs") == [1]


def test_penstocks_own_pgmq_is_no_source(bring: Import, target: Connection, dsn: str) -> None:
    from penstock.db.migrations import Migrator

    Migrator(target, contracts=["pgmq"]).up()
    target.execute("select pgmq.create('mine')")
    answer = bring("pgmq", "mine")
    assert answer.code == 2
    assert "already a queue of Penstock" in answer.err
