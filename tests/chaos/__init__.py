"""The chaos suite: real workers under load while things break, and a checker of what happened.

`python -m tests.chaos` (or `make chaos`) runs it. Everything that producers and workers do goes to
journals outside the database (history.py); when the dust has settled the checker reads them and
counts what must not be: messages lost, settled by a stale lease, delivered after a rollback, out of
order in their group.
"""
