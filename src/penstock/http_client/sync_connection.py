# Generated from http_client/async_connection.py by tools/generate_client.py. Do not edit.
"""The HTTP connections to a server. The sync module is generated from the async one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from penstock.commands.command import Command
from penstock.db import forks
from penstock.errors import PenstockError, ServerUnavailableError
from penstock.http_client.responses import HEADERS, answers_of, body_of, checked


class HttpConnection:
    """Keeps connections to one server open, and sends the API key on them."""

    def __init__(self, url: str, key: str, timeout: float, max_size: int) -> None:
        self._url = url.rstrip("/")
        self._headers = {**HEADERS, "Authorization": f"Bearer {key}"}
        self._timeout = timeout
        self._max_size = max_size
        self._closed = False
        self._http = self._make_http()
        forks.register(self)

    def _make_http(self) -> httpx.Client:
        size = self._max_size
        return httpx.Client(
            base_url=self._url,
            headers=self._headers,
            timeout=self._timeout,
            limits=httpx.Limits(max_connections=size, max_keepalive_connections=size),
        )

    def _after_fork(self) -> None:
        """In a child process, abandon the parent's connections and open new ones."""
        forks.abandon(self._http)
        self._http = self._make_http()

    def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands in one transaction. Returns the result of each."""
        body = body_of(commands)
        answer = self._send("/api/verbs", body, self._timeout)
        return answers_of(answer.status_code, answer.text, commands)

    def dequeue(self, body: Mapping[str, Any], wait_seconds: float) -> list[dict[str, Any]]:
        """Wait for messages with the long poll of the data plane."""
        timeout = self._timeout + wait_seconds
        answer = self._send("/api/messages/dequeue", json.dumps(body).encode(), timeout)
        messages: list[dict[str, Any]] = checked(answer.status_code, answer.text)["messages"]
        return messages

    def close(self) -> None:
        self._closed = True
        self._http.close()

    def _send(self, path: str, body: bytes, timeout: float) -> httpx.Response:
        if self._closed:
            raise PenstockError(
                "the client is closed", hint="Use it inside its `with` block, or create a new one."
            )
        try:
            return self._http.post(
                path, content=body, timeout=timeout, headers={"Prefer": "handling=strict"}
            )
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise ServerUnavailableError(
                f"the server at {self._url} does not respond: {reason}",
                hint="Check the address, and that `penstock up` is running there.",
            ) from error
