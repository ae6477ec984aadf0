"""The path under which a reverse proxy publishes the server, such as `/ops/penstock`.

Only this module knows it. A request loses the prefix before it is routed. A response gets it where
a browser follows a path: in redirects, in the paths of cookies, and in the links and forms of
pages. Routes, templates and handlers contain paths without it.
"""

from __future__ import annotations

import re
from typing import Final

Headers = list[tuple[bytes, bytes]]
_REDIRECTS: Final = (b"location", b"hx-redirect")
_COOKIE_PATH: Final = re.compile(rb"; path=/(?=;|$)", re.IGNORECASE)
# Jinja escapes the quotes in data, so this matches attributes of the templates only. A second
# slash would begin the name of another host.
LINK: Final = re.compile(
    rb'(\s(?:href|src|action|formaction|hx-(?:get|post|put|patch|delete)|data-events)=")/(?!/)'
)


class PathPrefix:
    """The empty prefix changes nothing."""

    def __init__(self, prefix: str) -> None:
        self.text = prefix
        self._raw = prefix.encode("ascii")

    def __bool__(self) -> bool:
        return bool(self.text)

    def strip(self, path: str) -> str:
        """The path as the routes have it. Some proxies remove the prefix themselves, and health
        checks come without it, so a path without the prefix is correct too."""
        if not self.text or not path.startswith(self.text):
            return path
        rest = path[len(self.text) :]
        return path if rest and rest[0] != "/" else rest or "/"

    def add_to_headers(self, headers: Headers) -> Headers:
        return [(name, self._header(name.lower(), value)) for name, value in headers]

    def _header(self, name: bytes, value: bytes) -> bytes:
        if name in _REDIRECTS and value.startswith(b"/") and not value.startswith(b"//"):
            return self._raw + value
        if name == b"set-cookie":
            return _COOKIE_PATH.sub(b"; Path=" + self._raw, value)
        return value

    def add_to_page(self, headers: Headers, body: bytes) -> tuple[Headers, bytes]:
        """A whole HTML page with the prefix in its links. Other bodies are left as they are."""
        known = {name.lower(): value for name, value in headers}
        if not known.get(b"content-type", b"").startswith(b"text/html"):
            return headers, body
        body = LINK.sub(rb"\1" + self._raw + b"/", body)
        others = [each for each in headers if each[0].lower() != b"content-length"]
        return [*others, (b"content-length", b"%d" % len(body))], body
