"""The client over HTTP. Its public name is `penstock.http`."""

try:
    import httpx as _httpx  # noqa: F401
except ImportError as error:
    if error.name != "httpx":
        raise
    raise ImportError(
        "penstock.http needs httpx, which is not installed. "
        "Install it with: pip install 'penstock[http]'",
        name="httpx",
    ) from error

from penstock.http_client.async_client import AsyncClient
from penstock.http_client.sync_client import Client

__all__ = ["AsyncClient", "Client"]
