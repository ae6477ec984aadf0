"""The address of a caller behind proxies: from `X-Forwarded-For` or `Forwarded` (RFC 7239), which
are trusted only as far as trusted proxies wrote them.

Each proxy appends the address it was called from. So the list is read from its end, trusted proxies
are skipped, and the first other address is the caller's. The caller wrote the rest of the list,
which is ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_FOR: Final = re.compile(rb'(?:^|;)\s*for\s*=\s*(?:"([^"]*)"|([^;,"\s]+))', re.IGNORECASE)
_WITH_PORT: Final = re.compile(r"(?:\[([^\]]*)\]|([0-9.]+))(?::\d+)?")


def parse_networks(text: str) -> tuple[Network, ...]:
    """Addresses and networks, separated by commas. ValueError names an invalid one."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(ipaddress.ip_network(part, strict=False) for part in parts)


def caller_address(scope: Any, trusted: Sequence[Network]) -> str:
    """The caller: the peer of the connection, or the address that trusted proxies report."""
    peer: str = (scope.get("client") or ("unknown",))[0]
    if not trusted or not _is_trusted(peer, trusted):
        return peer
    told = {
        _first_untrusted(peer, hops, trusted)
        for hops in (
            _hops(scope, b"x-forwarded-for", lambda part: part),
            _hops(scope, b"forwarded", _for_of),
        )
        if hops
    }
    # Most proxies write one of the two headers and forward the other unchanged. If they
    # disagree, it is unknown which one the proxy wrote.
    return told.pop() if len(told) == 1 else peer


def is_trusted_peer(scope: Any, trusted: Sequence[Network]) -> bool:
    """Whether a trusted proxy has opened the connection."""
    return _is_trusted((scope.get("client") or ("unknown",))[0], trusted)


def _hops(scope: Any, name: bytes, read: Callable[[bytes], bytes]) -> list[str]:
    lines = [value for key, value in scope["headers"] if key == name]
    parts = [part for line in lines for part in line.split(b",")]
    return [read(part.strip()).strip().decode("latin-1") for part in parts]


def _for_of(element: bytes) -> bytes:
    found = _FOR.search(element)
    return b"" if found is None else found[1] or found[2] or b""


def _first_untrusted(peer: str, hops: Iterable[str], trusted: Sequence[Network]) -> str:
    """The last address that is certain. If a hop cannot be parsed, the one after it."""
    for hop in reversed(list(hops)):
        address = _address(hop)
        if address is None:
            return peer
        peer = address
        if not _is_trusted(peer, trusted):
            return peer
    return peer


def _address(hop: str) -> str | None:
    """An address, perhaps with a port; None for `unknown`, `_hidden` and nonsense."""
    with_port = _WITH_PORT.fullmatch(hop)
    try:
        return str(ipaddress.ip_address((with_port[1] or with_port[2]) if with_port else hop))
    except ValueError:
        return None


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    # A dual-stack socket reports IPv4 addresses as IPv6.
    mapped = getattr(found, "ipv4_mapped", None) or found
    return any(mapped in network for network in trusted)
