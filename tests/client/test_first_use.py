"""A newcomer's first lines: no database named, nothing prepared."""

import os
import subprocess
import sys

SESSION = """
from penstock import Client

with Client() as queue:
    queue.create_queue("emails")
    queue.enqueue("emails", {"to": "ada@example.com"})
    print(queue.claim("emails")[0].payload)
"""


def test_a_client_without_a_database_starts_one_with_the_schema_in_it(tmp_path):
    named = ("PENSTOCK_DSN", "DATABASE_URL")
    environment = {name: value for name, value in os.environ.items() if name not in named}
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env={**environment, "PENSTOCK_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "{'to': 'ada@example.com'}\n", done.stderr
