"""Which network addresses requests may go to: public ones, and those that a setting allows.

| variable | meaning | default |
|---|---|---|
| `PENSTOCK_PUSH_NETWORKS` | private networks that endpoints may be in, or `all` | none |
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import ConfigurationError

VARIABLE: Final = "PENSTOCK_PUSH_NETWORKS"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# Global unicast addresses. All others are reserved, local, or deprecated, such as ::10.0.0.1.
_GLOBAL: Final = ipaddress.IPv6Network("2000::/3")
_DOCUMENTATION: Final = ipaddress.IPv6Network("3fff::/20")
# The prefix for addresses of the internet. That for local use, 64:ff9b:1::/48, is refused, because
# networks choose where in it the IPv4 address is.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class AllowedNetworks:
    """`everything` allows all addresses. Otherwise public ones and `networks` are allowed."""

    networks: tuple[Network, ...] = ()
    everything: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> AllowedNetworks:
        found = os.environ if environment is None else environment
        text = found.get(VARIABLE, "").strip()
        if text == "all":
            return cls(everything=True)
        try:
            names = [each.strip() for each in text.split(",") if each.strip()]
            return cls(tuple(ipaddress.ip_network(name) for name in names))
        except ValueError:
            raise ConfigurationError(
                f"{VARIABLE} is {text!r}",
                hint="Allowed: networks separated by commas, such as 10.0.0.0/8, or all.",
            ) from None

    def allow(self, text: str) -> bool:
        """Whether a request may go to this address."""
        if self.everything:
            return True
        address = ipaddress.ip_address(text.partition("%")[0])
        if any(address in network for network in self.networks):
            return True
        return _is_public(address)


def _is_public(address: Address) -> bool:
    """Whether the address, and an IPv4 address that it stands for, belongs to the internet."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            inner = address.teredo[1]
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
        if address not in _GLOBAL or address in _DOCUMENTATION:
            return False
    return address.is_global and not address.is_multicast
