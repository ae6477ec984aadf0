"""Connections to PostgreSQL: pools, notifications, migrations, the embedded server."""
