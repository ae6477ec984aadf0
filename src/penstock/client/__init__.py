"""The client: every verb of the queue as a method."""

from penstock.client.async_client import AsyncClient
from penstock.client.sync_client import Client

__all__ = ["AsyncClient", "Client"]
