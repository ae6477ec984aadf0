"""The client over HTTP: the verbs of `penstock.Client`, for programs with no database connection.

    from penstock.http import Client

    with Client("http://localhost:8080", key="psk_...") as queue:
        queue.enqueue("emails", {"to": "ada@example.com"})
        for lease in queue.claim("emails", 10, wait_seconds=20):
            queue.ack(lease)

It needs `pip install penstock[http]`. A refused call raises the same error as in the client over
SQL. If the server does not answer, a call raises ServerUnavailableError.
"""

from penstock.http_client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
