"""Options that mean nothing are refused, with what is allowed."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError, InvalidValueError
from penstock.spark.source import PenstockSource

DSN = {"dsn": "postgresql://localhost/x"}


def refused(match: str, **options: str) -> None:
    source = PenstockSource({**DSN, **options})
    with pytest.raises((InvalidValueError, ConfigurationError), match=match):
        source.streamReader(source.schema())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "the source needs the option table or queue"),
        ({"table": "histroy"}, "did you mean 'history'"),
        ({"tabel": "history"}, "did you mean 'table'"),
        ({"table": "history", "queue": "a"}, "the options table and queue exclude each other"),
        (
            {"table": "history", "consumer": "a"},
            "the options table and consumer exclude each other",
        ),
        ({"queue": "a", "queues": "b"}, "the options queue and queues exclude each other"),
        ({"queue": "mail.*"}, "patterns go into queues"),
        ({"queue": "mail.dlq"}, "the name of one queue"),
        ({"queues": "Orders"}, "which no queue can match"),
        ({"queues": " , "}, "names or patterns"),
        ({"queue": "a", "consumer": "Ü"}, "consumer is 'Ü'; allowed"),
        ({"table": "history", "initial": "yesterday"}, "earliest, latest, or a time"),
        ({"table": "history", "max_rows_per_batch": "0"}, "a whole number from 1"),
        ({"table": "history", "rows_per_partition": "many"}, "a whole number from 1"),
        ({"table": "history", "payload": "json"}, "allowed: string, variant"),
        ({"table": "history", "columns": "id,quue"}, "did you mean 'queue'"),
        ({"table": "history", "service": "eu,us"}, "service 'eu' has no address"),
        ({"table": "history", "service": "eu,eu"}, "each name once"),
        ({"table": "history", "service": "E U"}, "names of lowercase letters"),
        ({"table": "history", "dsn": "mysql://x"}, "not PostgreSQL"),
        ({"table": "messages"}, "cannot be streamed"),
        ({"table": "dead"}, "cannot be streamed"),
    ],
)
def test_a_wrong_option_is_refused_and_the_right_ones_are_named(
    options: dict[str, str], match: str
) -> None:
    refused(match, **options)


def test_a_batch_does_not_claim() -> None:
    source = PenstockSource({**DSN, "queue": "orders"})
    with pytest.raises(InvalidValueError, match="a batch cannot claim"):
        source.reader(source.schema())


def test_a_batch_has_no_later_rows() -> None:
    source = PenstockSource({**DSN, "table": "history", "initial": "latest"})
    with pytest.raises(InvalidValueError, match="a batch has no later rows"):
        source.reader(source.schema())


def test_the_address_of_a_service_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_DSN_EU_1", "postgresql://eu/x")
    from penstock.spark.options import read_services

    (service,) = read_services({"service": "eu-1"})
    assert service.address() == "postgresql://eu/x"
