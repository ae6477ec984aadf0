"""For the tests of applications: real queues in a real PostgreSQL, without waiting for anything.

    from penstock import Client
    from penstock.testing import Clock, assert_enqueued, database, drain

    with database() as dsn, Client(dsn) as client:
        client.create_queue("emails")
        sign_up(client, "ada@example.com")
        assert_enqueued(client, "emails", {"to": "ada@example.com"})
        drain(app, client)

`database` creates a database for a test. `drain` runs the handlers of an App until no message is
ready. `assert_enqueued` checks the messages of a queue. `Clock` stops and moves the engine's clock.
"""

from penstock.testing.assertions import assert_enqueued, assert_enqueued_async
from penstock.testing.clock import Clock
from penstock.testing.databases import database
from penstock.testing.draining import Handled, drain, drain_async

__all__ = [
    "Clock",
    "Handled",
    "assert_enqueued",
    "assert_enqueued_async",
    "database",
    "drain",
    "drain_async",
]
