"""Errors of one cause are one kind, with any ids. An exception names its traceback."""

from __future__ import annotations

import ipaddress
import random
from typing import Any

import pytest

from penstock import Client
from penstock.commands import read
from penstock.model.error_masks import WORDS
from penstock.server.ui.errors import kind_of

FRAMES = 'Traceback (most recent call last):\n  File "a.py", line 3, in pay\n    pay()\n    ~~~^^\n'
INNER = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
GROUP = (
    "  + Exception Group Traceback (most recent call last):\n"
    '  |   File "a.py", line 3, in <module>\n  |     await all()\n'
    "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
    "  +-+---------------- 1 ----------------\n"
    '    | Traceback (most recent call last):\n    |   File "a.py", line 9, in pay\n'
    "    | ValueError: no\n    +------------------------------------\n"
)
IN_GROUP = "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"
TRACEBACKS = {
    FRAMES + "KeyError: 'a'": "KeyError: 'a'",
    FRAMES + "KeyError: 'a'" + INNER + FRAMES + "shop.CardError: no": "shop.CardError: no",
    "task failed\n" + FRAMES + "KeyError: 'a'\nmore": "KeyError: 'a'",
    "ValueError: no\n\n" + FRAMES + "ValueError: no": "ValueError: no",
    GROUP: IN_GROUP,
    "task failed\n" + GROUP: IN_GROUP,
    FRAMES + "KeyError: 'a'" + INNER + GROUP: IN_GROUP,
    GROUP + INNER + FRAMES + "SystemError: it ended": "SystemError: it ended",
    "task failed\n" + FRAMES: "task failed",
    "it said Traceback (most recent call last):\nno": "it said Traceback (most recent call last):",
}


@pytest.mark.parametrize("length", range(4, 33))
def test_random_ids_of_each_length_are_one_kind(length: int) -> None:
    """A word of the letters a to f, such as "dead", is an English word and not masked."""
    chosen = random.Random(length)
    words = WORDS.split("|")
    ids = ["".join(chosen.choices("0123456789abcdef", k=length)) for _ in range(1000)]
    ids = [id for id in ids if id not in words]
    assert len(ids) > 990
    for text in ("KeyError: no order {} here", "order-{} failed", "id={}, gone", "({}-a)"):
        assert len({kind_of(text.format(id)) for id in ids}) == 1
        assert len({kind_of(text.format(id.upper())) for id in ids}) == 1


def test_addresses_of_ip_version_6_are_masked() -> None:
    chosen = random.Random(6)
    for _ in range(500):
        # Zeros in some of them, which are written as "::".
        bits = chosen.getrandbits(112) & chosen.choice([-1, ~(0xFFFFFFFF << 32), 7])
        address = ipaddress.IPv6Address(0x2001 << 112 | bits)
        for text in (str(address), address.exploded, f"[{address}]:5432"):
            assert kind_of(f"no route to {text} now") == "no route to <address> now"
    for text in ("::1", "fe80::1%eth0", "::ffff:10.0.0.1"):
        assert kind_of(f"no route to {text}, really") == "no route to <address>, really"


def test_words_are_not_masked() -> None:
    text = "ValueError: dead feed face added Decade cafe-faded EBADF std::bad_alloc Dead::Beef AAAA"
    assert kind_of(text) == text
    assert kind_of("E: at 12:30:45, item_added failed") == "E: at <n>:<n>:<n>, item_added failed"


def test_a_traceback_is_known_by_its_last_exception(client: Client, run: Any) -> None:
    client.create_queue("mails", max_attempts=1)
    for error in TRACEBACKS:
        client.enqueue("mails", 1)
        (lease,) = client.claim("mails", 1)
        client.reject(lease, error)
    found = {each.first_id: each.error for each in run(read.dead_errors("mails"))}
    assert set(found.values()) == set(TRACEBACKS.values())
    assert sum(each.count for each in run(read.dead_errors("mails"))) == len(TRACEBACKS)
    assert client.redrive("mails", error_like="shop.CardError: %") == 1
