"""A payload counts with the size of its text, at every way into a queue.

PostgreSQL stores 1e131000 in 12 bytes, and prints it with 131,001 digits.
"""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from penstock.commands.payload import printed_bytes

NUMBERS = "[1e131000, 1e131000, 1e131000]"
FRACTIONS = "[" + ",".join(["0e-16383"] * 17) + "]"
_LIST = "array['1', :payload]::jsonb[]"
_NO_HEADERS = "array['{}', '{}']::jsonb[]"
_STAGE = f"select penstock.spark_stage('{uuid4()}', 0, 'orders', {_LIST}"
WAYS_IN = {
    "enqueue": "select penstock.enqueue('orders', :payload)",
    "enqueue with a key": "select penstock.enqueue('orders', :payload, key => 'k')",
    "enqueue_many": f"select penstock.enqueue_many('orders', {_LIST})",
    "enqueue_many with headers": f"select penstock.enqueue_many('orders', {_LIST},"
    f" headers => {_NO_HEADERS})",
    "spark_stage": f"{_STAGE})",
    "spark_stage with headers": f"{_STAGE}, headers => {_NO_HEADERS})",
    "spark_put": f"select penstock.spark_put('orders', {_LIST})",
    "create_schedule": "select penstock.create_schedule('s', 'orders', '@daily', :payload)",
    "set_schedule": "select penstock.set_schedule('daily',"
    " jsonb_build_object('payload', :payload::jsonb))",
    "enqueue_all": "select penstock.enqueue_all(jsonb_build_array("
    "jsonb_build_object('queue', 'orders', 'payload', :payload::jsonb)))",
    "mdb_queue": "insert into mdb_queue.messages (queue_name, payload) values ('orders', :payload)",
}


@pytest.fixture
def db(connect):
    connection = connect(autocommit=True)
    connection.execute("select penstock.create_queue('orders')")
    connection.execute("select penstock.create_schedule('daily', 'orders', '@daily', '1')")
    return connection


@pytest.mark.parametrize("payload", [NUMBERS, FRACTIONS], ids=["large", "small"])
def test_numbers_with_large_exponents_do_not_pass_the_limit(db, payload):
    assert db.execute("select pg_column_size(%s::jsonb)", (payload,)).fetchone()[0] < 300
    refusals = {}
    for way, statement in WAYS_IN.items():
        with pytest.raises(psycopg.Error) as caught:
            db.execute(statement.replace(":payload", f"'{payload}'").encode())
        refusals[way] = caught.value.sqlstate
    assert refusals == dict.fromkeys(WAYS_IN, "PS005")
    assert db.execute("select count(*) from penstock.messages").fetchone() == (0,)


def test_a_result_with_large_exponents_does_not_pass_its_limit(db):
    db.execute("select penstock.enqueue('orders', '1')")
    [(id, token)] = db.execute("select id, token from penstock.claim('orders')")
    call = "select penstock.complete_many(%s, %s, array[%s::jsonb], array[60])"
    for numbers in (9, 8200):
        result = "[" + ",".join(["1e131000"] * numbers) + "]"
        with pytest.raises(psycopg.Error, match="at most 1048576 bytes") as caught:
            db.execute(call, ([id], [token], result))
        assert caught.value.sqlstate == "PS004"
    [settled] = db.execute(call, ([id], [token], "[1e131000]"))
    assert settled == (id,)


def test_the_messages_of_a_batch_do_not_pass_the_limit(db):
    [(batch,)] = db.execute("select penstock.create_batch('nightly')")
    with pytest.raises(psycopg.Error) as caught:
        db.execute(
            "select penstock.add_to_batch(%s, 'orders', array[%s]::jsonb[])", (batch, NUMBERS)
        )
    assert caught.value.sqlstate == "PS005"


def test_headers_with_large_exponents_do_not_pass_their_limit(db):
    with pytest.raises(psycopg.Error, match="at most 16384 bytes") as caught:
        db.execute("""select penstock.enqueue('orders', '1', headers => '{"n": 1e131000}')""")
    assert caught.value.sqlstate == "PS004"


def test_a_payload_that_postgresql_cannot_print_is_too_large(db):
    # 1.05 GB as text, in 130 kB.
    payload = "[" + ",".join(["1e131000"] * 8200) + "]"
    with pytest.raises(psycopg.Error) as caught:
        db.execute("select penstock.enqueue('orders', %s::jsonb)", (payload,))
    assert caught.value.sqlstate == "PS005"


def test_a_payload_of_exactly_the_limit_is_accepted(db):
    db.execute("""select penstock.set_queue('orders', '{"max_payload_bytes": 131003}')""")
    db.execute("select penstock.enqueue('orders', '[1e131000]')")
    db.execute("""select penstock.set_queue('orders', '{"max_payload_bytes": 131002}')""")
    with pytest.raises(psycopg.Error, match="131003 bytes"):
        db.execute("select penstock.enqueue('orders', '[1e131000]')")


@pytest.mark.parametrize(
    "text",
    ["[" + ", ".join(["1e131000"] * 200) + "]", "[" + ", ".join(["-2.5E-16000"] * 200) + "]",
     '{"id": "' + "3e999" * 300 + '"}', "[" + "1," * 600 + "1e20]"],
)  # fmt: skip
def test_the_size_of_printed_json_is_estimated_without_the_database(db, text):
    [exact] = db.execute("select octet_length(%s::jsonb::text)", (text,)).fetchone()
    assert exact * 0.5 < printed_bytes(text) < exact * 1.1
