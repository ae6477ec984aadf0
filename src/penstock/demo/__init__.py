"""A small web shop that `penstock up --demo` runs: queues, handlers, traffic and failures.

`queues` says what it consists of, `app` has the handlers, `traffic` enqueues, and `installation`
creates and removes all of it. Handlers and traffic use the public API alone, so they are also an
example of an application.
"""
