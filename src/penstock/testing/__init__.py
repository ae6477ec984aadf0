"""For the tests of applications: real queues in a real PostgreSQL, without waiting for anything.

    from penstock import Client
    from penstock.testing import Clock, assert_enqueued, database, drain

    with database() as dsn, Client(dsn) as client:
        client.create_queue("emails")
        sign_up(client, "ada@example.com")
        assert_enqueued(client, "emails", {"to": "ada@example.com"})
        drain(app, client)

`database` makes a database of its own for a test; `drain` runs the handlers of an App until nothing
is ready; `assert_enqueued` looks at what waits; `Clock` stops the time of the engine and moves it.
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
